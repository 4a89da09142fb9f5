"""Packing plan: which node polls which sites, and the derivation of the next plan from the last.

The first plan packs all sites onto as few nodes as the search finds. Later plans start from the last: a
site stays on its node unless the node is too full, or nodes can be saved. A site larger than a node is
packed host by host, and a host larger than a node is cut into equal parts, no two of which fit on one
node. Nodes are numbered from 1 and keep their numbers; the numbers of unused nodes are missing.

A site that changes its node takes its queue, its politeness and its learned rates along, so an equally
good packing is not worth a move. An overloaded bin gives up as few items as possible, and a bin is
emptied if the others can take its items. A packing from scratch is used only if it saves more than a
twentieth of the bins and leaves as much of each free, so that it lasts; its bins are numbered so that
most of the weight stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fieldmouse.policy.site_packing.bin_packing import SEARCH_NODES, Bins, best_fit_into, lower_bound, pack

#: Share of bins that a packing from scratch must save, and share of each bin that it must leave free.
#:
#: Of 200 sites whose weights drift by 2 % a step three move at each step; if any saving were enough 86 would, for 7 %
#: fewer bins.
MIN_SAVING = 0.05


@dataclass(frozen=True, slots=True)
class RepackedBins:
    """Bins in their old places, possibly empty, followed by new ones; `moved` items changed their bin."""

    bins: Bins
    moved: tuple[int, ...]
    bound: int


def repack(
    weights: Sequence[int],
    capacity: int,
    bins: Sequence[Sequence[int]],
    nodes: int = SEARCH_NODES,
    worth: float = MIN_SAVING,
) -> RepackedBins:
    """Repack after weights changed; items in no bin are new, and no weight may exceed the capacity.

    >>> repack([5, 4, 3, 2], 10, [[0, 1], [2]])
    RepackedBins(bins=[[0, 1], [2, 3]], moved=(), bound=2)
    >>> repack([8, 4, 3, 2], 10, [[0, 1], [2]]).bins
    [[0, 3], [2, 1]]
    """
    before = {item: place for place, held in enumerate(bins) for item in held}
    away = [_items_to_move(weights, capacity, held) for held in bins]
    staying = [[item for item in held if item not in gone] for held, gone in zip(bins, away, strict=True)]
    homeless = [item for item in range(len(weights)) if item not in before or item in away[before[item]]]
    settled = _empty_light_bins(weights, capacity, best_fit_into(weights, capacity, staying, homeless))
    used = sum(1 for held in settled if held)
    bound = lower_bound(weights, capacity)
    if (1 + worth) * bound < used:
        below = max(1, int((1 - worth) * capacity))
        fresh = pack([min(weight, below) for weight in weights], below, nodes)
        if (1 + worth) * len(fresh.bins) < used:
            settled = _renumber_bins(weights, fresh.bins, bins)
    moved = tuple(item for place, held in enumerate(settled) for item in held if before.get(item, place) != place)
    return RepackedBins(settled, moved, bound)


def _items_to_move(weights: Sequence[int], capacity: int, held: Sequence[int]) -> set[int]:
    """Items to move away: the heaviest, until one is enough; then the lightest that is enough."""
    surplus = sum(weights[item] for item in held) - capacity
    gone: set[int] = set()
    falling = sorted(held, key=lambda item: -weights[item])
    while surplus > 0:
        enough = [item for item in falling if item not in gone and weights[item] >= surplus]
        chosen = enough[-1] if enough else next(item for item in falling if item not in gone)
        gone.add(chosen)
        surplus -= weights[chosen]
    return gone


def _empty_light_bins(weights: Sequence[int], capacity: int, bins: Bins) -> Bins:
    """Empty as many bins as possible, the lightest first, by fitting their items into the others."""
    while True:
        used = [place for place, held in enumerate(bins) if held]
        if not used:
            return bins
        lightest = min(used, key=lambda place: sum(weights[item] for item in bins[place]))
        others = [bins[place] for place in used if place != lightest]
        tried = best_fit_into(weights, capacity, others, bins[lightest])
        if len(tried) > len(others):
            return bins
        back = dict(zip((place for place in used if place != lightest), tried, strict=True))
        bins = [back.get(place, []) for place in range(len(bins))]


def _renumber_bins(weights: Sequence[int], fresh: Bins, bins: Sequence[Sequence[int]]) -> Bins:
    """New bins in the places of the old ones with which they share most weight, heaviest share first."""
    before = {item: place for place, held in enumerate(bins) for item in held}
    shared: dict[tuple[int, int], int] = {}
    for number, held in enumerate(fresh):
        for item in held:
            if item in before:
                shared[number, before[item]] = shared.get((number, before[item]), 0) + weights[item]
    place_of: dict[int, int] = {}
    for number, place in sorted(shared, key=lambda pair: -shared[pair]):
        if number not in place_of and place not in place_of.values():
            place_of[number] = place
    free = iter(place for place in range(len(bins) + len(fresh)) if place not in place_of.values())
    for number in range(len(fresh)):
        if number not in place_of:
            place_of[number] = next(free)
    settled: Bins = [[] for _ in range(max(len(bins), *(place + 1 for place in place_of.values())))]
    for number, held in enumerate(fresh):
        settled[place_of[number]] = held
    return settled


#: Parts of a node to which weights are rounded up, so that no node is overfull.
#:
#: With this number up to sixteen equal sites fill a node without a remainder.
UNITS = 720_720


@dataclass(frozen=True, slots=True)
class HostWeight:
    host: str
    polls: float
    pages: int = 0


@dataclass(frozen=True, slots=True)
class SiteWeight:
    """A site and the polls per hour planned for its pages: those of its `hosts`, if given."""

    site: str
    polls: float
    pages: int = 0
    hosts: tuple[HostWeight, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteShare:
    """A site on a node, or one `host` of it, or a part; `polls` and `pages` count this node only."""

    site: str
    polls: float
    pages: int = 0
    host: str = ""  # "": all hosts of the site
    part: int = 1
    parts: int = 1


@dataclass(frozen=True, slots=True)
class PackedNode:
    node: int
    polls: float
    sites: tuple[SiteShare, ...]  # those with most polls first


@dataclass(frozen=True, slots=True)
class SiteMove:
    """A site share that was on another node in the previous plan; fields as in `SiteShare`."""

    site: str
    host: str
    part: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PackingPlan:
    """`at_least` nodes are needed however sites are packed. `capacity` and `polls` are polls an hour."""

    at: float
    capacity: float
    polls: float
    sites: int
    at_least: int
    nodes: tuple[PackedNode, ...]
    moved: tuple[SiteMove, ...] = ()  # since the previous plan
    large: tuple[str, ...] = ()  # sites larger than a node


def plan_packing(
    sites: Sequence[SiteWeight], capacity: float, at: float, last: PackingPlan | None = None
) -> PackingPlan:
    """The plan for sites that are to be polled at all.

    >>> sites = [SiteWeight("a.org", 300), SiteWeight("b.org", 250), SiteWeight("c.org", 90)]
    >>> first = plan_packing(sites, capacity=400, at=0.0)
    >>> [(node.node, [share.site for share in node.sites]) for node in first.nodes]
    [(1, ['a.org', 'c.org']), (2, ['b.org'])]
    >>> more = plan_packing([*sites[:2], SiteWeight("c.org", 120)], capacity=400, at=1.0, last=first)
    >>> more.moved
    (SiteMove(site='c.org', host='', part=1, before=1, after=2),)
    """
    shares = [share for site in sites for share in _split_site(site, capacity)]
    weights = [_weight_units(share.polls, capacity) for share in shares]
    before = _node_by_share(last)
    bins = pack(weights, UNITS).bins if last is None else repack(weights, UNITS, _previous_bins(shares, before)).bins
    nodes = tuple(_packed_node(number, [shares[item] for item in held]) for number, held in enumerate(bins, 1) if held)
    moved = tuple(
        SiteMove(share.site, share.host, share.part, was, node.node)
        for node in nodes
        for share in node.sites
        if (was := before.get(_share_key(share), node.node)) != node.node
    )
    return PackingPlan(
        at,
        capacity,
        sum(share.polls for share in shares),
        len({share.site for share in shares}),
        # Rounded down: a bound must never say more than is true.
        lower_bound([max(1, int(share.polls / capacity * UNITS)) for share in shares], UNITS),
        nodes,
        moved,
        tuple(site.site for site in sites if site.polls > capacity * (1 + 1e-9)),
    )


def _split_site(site: SiteWeight, capacity: float) -> Iterator[SiteShare]:
    """The site, if a node can hold it; otherwise its hosts, each in as many parts as needed."""
    whole = (HostWeight("", site.polls, site.pages),)
    for item in site.hosts if _part_count(site.polls, capacity) > 1 and site.hosts else whole:
        parts = _part_count(item.polls, capacity)
        for part in range(parts):
            pages = item.pages * (part + 1) // parts - item.pages * part // parts
            yield SiteShare(site.site, item.polls / parts, pages, item.host, part + 1, parts)


def _part_count(polls: float, capacity: float) -> int:
    return math.ceil(polls / capacity * (1 - 1e-9))  # 0 for sites that are not polled


def _share_key(share: SiteShare) -> tuple[str, str, int]:
    return share.site, share.host, share.part


def _weight_units(polls: float, capacity: float) -> int:
    return min(UNITS, max(1, math.ceil(polls / capacity * UNITS * (1 - 1e-9))))


def _node_by_share(last: PackingPlan | None) -> dict[tuple[str, str, int], int]:
    nodes = last.nodes if last else ()
    return {_share_key(share): node.node for node in nodes for share in node.sites}


def _previous_bins(shares: Sequence[SiteShare], before: Mapping[tuple[str, str, int], int]) -> Bins:
    bins: Bins = [[] for _ in range(max(before.values(), default=0))]
    for item, share in enumerate(shares):
        if _share_key(share) in before:
            bins[before[_share_key(share)] - 1].append(item)
    return bins


def _packed_node(number: int, shares: list[SiteShare]) -> PackedNode:
    shares.sort(key=lambda share: (-share.polls, _share_key(share)))
    return PackedNode(number, sum(share.polls for share in shares), tuple(shares))
