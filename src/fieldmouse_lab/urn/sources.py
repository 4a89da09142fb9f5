"""Sources of the urn game: the probability of every host, and draws from it.

Chapter 5 of the thesis uses uniform, exponential, normal, Poisson and power laws over hosts 1 to C; a
real crawl gives empirical counts (chapter 6). Two extensions go beyond the thesis: a source that permutes
its probabilities among the hosts at intervals, and hosts that end after their last page.

A draw takes one number, uniform in [0, 1), and inverts the distribution function. A guide table, indexed
by the leading digits of the number, gives the host where the search starts. On average the search looks
at fewer than two hosts, regardless of their number.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fieldmouse.errors import FieldmouseError, UsageError
from fieldmouse.frontier.durable_parts import FrontierState, frontier_state_of
from fieldmouse.frontier.hosts.host_table import read_hosts
from fieldmouse.frontier.queues.queue_index import queue_lengths
from fieldmouse.frontier.queues.sieved_urls import read_ready_items
from fieldmouse.reader.snapshot import read_at_newest_checkpoint
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.url import Host

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

_EMPTY: Ints = np.empty(0, np.int32)
_MOST_HOSTS = 1 << 29  # a colour and the kind of its event share 32 bits


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Distribution in which host i is drawn with probability `p[i]`.

    Every `permute_every` steps the probabilities are permuted at random among the hosts (0: never). Host i
    has `sizes[i]` balls in all (empty: unlimited); later draws come from the other hosts.
    """

    name: str
    p: Reals
    permute_every: int = 0
    sizes: Ints = field(default_factory=lambda: _EMPTY)
    below: Reals = field(init=False, repr=False)
    guide: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        p = np.ascontiguousarray(self.p, np.float64)
        if not 0 < len(p) < _MOST_HOSTS:
            raise UsageError(f"a source of {len(p):,} hosts cannot be played", "choose 1 host to 500 million")
        if not np.isfinite(p).all() or p.min() < 0.0 or not p.sum() > 0.0:
            raise UsageError("these parameters leave no host a probability", "choose others for this source")
        if self.permute_every < 0:
            raise UsageError(f"probabilities cannot change every {self.permute_every} steps", "0 means never")
        if len(self.sizes) and (len(self.sizes) != len(p) or self.permute_every):
            raise UsageError(
                "hosts that end need one size each, and probabilities that stay",
                "leave out `permute_every`, or give as many sizes as there are hosts",
            )
        p = p / p.sum()
        below = np.cumsum(p)
        below /= below[-1]
        guide = np.searchsorted(below, np.arange(len(p)) / len(p), side="right").astype(np.int32)
        for name, value in (("p", p), ("below", below), ("guide", guide)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def hosts(self) -> int:
        return len(self.p)

    @property
    def finite(self) -> bool:
        return bool(len(self.sizes))

    def draw(self, rng: Generator) -> int:
        """Draw one host; takes one number from `rng`."""
        u = rng.random()
        host = int(self.guide[int(u * len(self.guide))])
        while self.below[host] <= u:
            host += 1
        return host

    def sequence(self, rng: Generator) -> Ints:
        """Return all balls of a finite source in the order in which they are drawn.

        Each host emits its balls at the points of a Poisson process of rate p[i] and then stops. The
        points of all hosts in order are draws from the hosts that have not ended, each with a probability
        proportional to its p.
        """
        assert self.finite, "an endless source has no last ball"
        hosts = np.repeat(np.arange(self.hosts, dtype=np.int32), self.sizes)
        elapsed = np.cumsum(rng.exponential(size=len(hosts)))
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        before = np.concatenate(([0.0], elapsed))[starts]
        with np.errstate(divide="ignore"):
            times = (elapsed - np.repeat(before, self.sizes)) / self.p[hosts]
        return hosts[np.argsort(times, kind="stable")]


def uniform(hosts: int) -> Source:
    return Source("uniform", np.ones(_many(hosts)))


def exponential(hosts: int, mean: float) -> Source:
    """(5.1): a geometric law with success probability 1 - exp(-1/mean), cut off after `hosts`."""
    _positive("mean", mean)
    return Source("exponential", np.exp(-np.arange(_many(hosts)) / mean))


def normal(hosts: int, mean: float, deviation: float) -> Source:
    """Section 5.3: the increments of the distribution function from 1 to `hosts`, normalised.

    The probability left of host 1 is added to host 1, as with the exponential law. The text requires this:
    for a mean of one or two deviations it finds a super colour (Figures 5.10 and 5.11b), which a density
    does not have.
    """
    from scipy.special import ndtr  # imported here, because only this law needs it

    if not math.isfinite(mean):
        raise UsageError(f"a mean of {mean:g} makes no distribution", "give a finite one")
    _positive("deviation", deviation)
    below = ndtr((np.arange(1, _many(hosts) + 1) - mean) / deviation)
    return Source("normal", np.diff(below, prepend=0.0))


def poisson(hosts: int, mean: float) -> Source:
    """Section 5.4: the probabilities of 1 to `hosts`, normalised; a mean of 0 leaves only host 1."""
    if not 0.0 <= mean < math.inf:
        raise UsageError(f"a Poisson law has no mean of {mean:g}", "give a mean of 0 or more")
    c = np.arange(1, _many(hosts) + 1, dtype=np.float64)
    if mean == 0.0:
        return Source("poisson", (c == 1).astype(np.float64))
    logs = c * np.log(mean) - np.cumsum(np.log(c))
    return Source("poisson", np.exp(logs - logs.max()))


def power(hosts: int, gamma: float) -> Source:
    """Section 5.5: host i in proportion to i^-gamma; 0 is uniform."""
    if not 0.0 <= gamma < 100.0:
        raise UsageError(
            f"a power law with gamma {gamma:g} cannot be played", "give 0 (uniform) or more, and less than 100"
        )
    return Source("power", np.arange(1, _many(hosts) + 1, dtype=np.float64) ** -gamma)


def empirical_source(counts: npt.ArrayLike) -> Source:
    """Host i in proportion to its count, largest first, as in chapter 6."""
    sizes = np.sort(np.asarray(counts, np.float64))[::-1]
    return Source("empirical", sizes[sizes > 0.0])


def finite_source(source: Source, balls: int) -> Source:
    """The same source with `balls` balls in all, distributed to the hosts by their probability."""
    shares = source.p * balls
    sizes = np.floor(shares).astype(np.int32)
    # The balls left over by rounding go to the hosts that lost most by it.
    order = np.argsort(sizes - shares, kind="stable")
    sizes[order[: balls - int(sizes.sum())]] += 1
    return replace(source, sizes=sizes)


def _many(hosts: int) -> int:
    if hosts < 1:
        raise UsageError(f"a source of {hosts} hosts has nothing to give", "give at least 1 host")
    if hosts >= _MOST_HOSTS:
        raise UsageError(f"{hosts:,} hosts are more than fit in memory", "give at most 500 million")
    return hosts


def _positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise UsageError(f"a {name} of {value:g} makes no distribution", f"give a {name} above 0")


def host_url_counts(directory: Path) -> dict[Host, int]:
    """Count stored pages and waiting URLs per host at the last checkpoint, without changing the crawl."""
    home = CrawlDir.open(directory)
    nothing: dict[Host, int] = {}
    if urls := read_at_newest_checkpoint(
        home, lambda last: _counts(home / "frontier", frontier_state_of(last)), before=nothing
    ):
        return urls
    raise FieldmouseError(f"the crawl in `{directory}` has no hosts yet", "let it crawl for a while and try again")


def _counts(frontier: Path, state: FrontierState) -> dict[Host, int]:
    urls: Counter[Host] = Counter()
    for host, row in read_hosts(frontier, state.hosts).items():
        urls[host] += row.pages
    for host, length in queue_lengths(frontier, state.queues.index):
        urls[host] += length
    for host, _ in read_ready_items(frontier, state.ready):
        urls[host] += 1
    return dict(+urls)
