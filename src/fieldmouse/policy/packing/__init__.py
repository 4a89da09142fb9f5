"""Packing of sites onto nodes with a limited poll capacity.

A site is an item, its weight the planned polls of its pages, a node is a bin, and all nodes have the same
capacity. A packing is a list of bins, and a bin a list of positions in the list of weights: site names are
not used here.

A site is first packed with all others by `fit` (Best Fit Decreasing). As pages are learned, weights change
and nodes overflow: `scheme` then either lets the node poll less (`reduction`) or moves sites, so that the
fullest subset that fits stays (`subset`), and fits the others in elsewhere. That is the scheme of Yazidi
(2006). It is measured by `bounds` and compared with `search`, which looks for the fewest nodes, and
`moves`,
which repacks with few moved sites.
"""

from __future__ import annotations
