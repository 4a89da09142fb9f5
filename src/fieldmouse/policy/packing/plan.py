"""Packing plan: which node polls which sites, and the derivation of the next plan from the last.

The first plan packs all sites onto as few nodes as the search finds. Later plans start from the last: a
site stays on its node unless the node is too full, or nodes can be saved. A site larger than a node is
packed host by host, and a host larger than a node is cut into equal parts, no two of which fit on one
node. Nodes are numbered from 1 and keep their numbers; the numbers of unused nodes are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fieldmouse.policy.packing.bounds import fewest
from fieldmouse.policy.packing.fit import Bins
from fieldmouse.policy.packing.moves import repacked
from fieldmouse.policy.packing.search import packed

UNITS = 720_720
"""Parts of a node to which weights are rounded up, so that no node is overfull.

With this number up to sixteen equal sites fill a node without a remainder."""


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


def planned(
    sites: Sequence[SiteWeight], capacity: float, at: float, last: PackingPlan | None = None
) -> PackingPlan:
    """The plan for sites that are to be polled at all.

    >>> sites = [SiteWeight("a.org", 300), SiteWeight("b.org", 250), SiteWeight("c.org", 90)]
    >>> first = planned(sites, capacity=400, at=0.0)
    >>> [(node.node, [share.site for share in node.sites]) for node in first.nodes]
    [(1, ['a.org', 'c.org']), (2, ['b.org'])]
    >>> more = planned([*sites[:2], SiteWeight("c.org", 120)], capacity=400, at=1.0, last=first)
    >>> more.moved
    (SiteMove(site='c.org', host='', part=1, before=1, after=2),)
    """
    shares = [share for site in sites for share in _shares(site, capacity)]
    weights = [_units(share.polls, capacity) for share in shares]
    before = _places(last)
    if last is None:
        bins = packed(weights, UNITS).bins
    else:
        bins = repacked(weights, UNITS, _as_before(shares, before)).bins
    nodes = tuple(
        _node(number, [shares[item] for item in held]) for number, held in enumerate(bins, 1) if held
    )
    moved = tuple(
        SiteMove(share.site, share.host, share.part, was, node.node)
        for node in nodes
        for share in node.sites
        if (was := before.get(_key(share), node.node)) != node.node
    )
    return PackingPlan(
        at, capacity, sum(share.polls for share in shares), len({share.site for share in shares}),
        # Rounded down: a bound must never say more than is true.
        fewest([max(1, int(share.polls / capacity * UNITS)) for share in shares], UNITS), nodes, moved,
        tuple(site.site for site in sites if site.polls > capacity * (1 + 1e-9)),
    )  # fmt: skip


def _shares(site: SiteWeight, capacity: float) -> Iterator[SiteShare]:
    """The site, if a node can hold it; otherwise its hosts, each in as many parts as needed."""
    whole = (HostWeight("", site.polls, site.pages),)
    for item in site.hosts if _parts(site.polls, capacity) > 1 and site.hosts else whole:
        parts = _parts(item.polls, capacity)
        for part in range(parts):
            pages = item.pages * (part + 1) // parts - item.pages * part // parts
            yield SiteShare(site.site, item.polls / parts, pages, item.host, part + 1, parts)


def _parts(polls: float, capacity: float) -> int:
    return math.ceil(polls / capacity * (1 - 1e-9))  # 0 for sites that are not polled


def _key(share: SiteShare) -> tuple[str, str, int]:
    return share.site, share.host, share.part


def _units(polls: float, capacity: float) -> int:
    return min(UNITS, max(1, math.ceil(polls / capacity * UNITS * (1 - 1e-9))))


def _places(last: PackingPlan | None) -> dict[tuple[str, str, int], int]:
    nodes = last.nodes if last else ()
    return {_key(share): node.node for node in nodes for share in node.sites}


def _as_before(shares: Sequence[SiteShare], before: Mapping[tuple[str, str, int], int]) -> Bins:
    bins: Bins = [[] for _ in range(max(before.values(), default=0))]
    for item, share in enumerate(shares):
        if _key(share) in before:
            bins[before[_key(share)] - 1].append(item)
    return bins


def _node(number: int, shares: list[SiteShare]) -> PackedNode:
    shares.sort(key=lambda share: (-share.polls, _key(share)))
    return PackedNode(number, sum(share.polls for share in shares), tuple(shares))
