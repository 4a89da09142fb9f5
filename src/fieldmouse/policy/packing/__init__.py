"""Which sites go to which node, when each node can poll only so much.

A site is an item, its weight the polls its pages are planned to get, a node is a bin, and all nodes have
the same capacity. A packing is a list of bins, and a bin a list of places in the list of weights: nothing
here knows what a site is called.

Follow one site. At first it is packed with all others by `fit` (Best Fit Decreasing). As pages are
learned, weights move and nodes overflow: `scheme` then either lets the node poll less
(`reduction`) or sends sites away, so that the fullest part that still fits stays (`subset`),
and fits them in elsewhere. That is the scheme of Yazidi (2006). Beside it stand what it is
measured by, `bounds`, and what it is up against: `search`, which looks for fewest nodes,
and `moves`, which packs anew with few sites changing their node.
"""
