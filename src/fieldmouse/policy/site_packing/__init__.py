"""Packing of sites onto nodes with a limited poll capacity.

A site is an item, its weight the planned polls of its pages, a node is a bin, and all nodes have the same
capacity. A packing is a list of bins, and a bin a list of positions in the list of weights: site names
appear only in `plan`.

A site is first packed with all others by `best_fit_decreasing`. As pages are learned, weights change and
nodes overflow: `AdaptiveSitePacking` then either lets the node poll less (`reduce_polls`) or moves sites, so that
the fullest subset that fits stays (`fullest_subset`), and fits the others in elsewhere. That is the scheme of
Yazidi (2006). It is measured by `lower_bound` and compared with `pack`, which searches for the fewest nodes,
and `repack`, which repacks with few moved sites.
"""

from __future__ import annotations
