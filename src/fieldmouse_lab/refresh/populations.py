"""Page sets with known probabilities of change per slot, by site.

Two are those of Yazidi (2006): one probability for each top-level domain, and a Zipf law within each site.
The latter is k^-theta for the page of rank k and is *not* normalised, so a site's first page changes in
every slot: only then do the printed optimal weights follow from the law. The third has a heavy tail, like
the web.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DOMAINS = ("com", "net", "edu", "org")

SIZES: Mapping[str, Sequence[int]] = {
    "com": (131, 201, 341, 567, 531, 36, 451, 121),
    "net": (124, 174, 402, 322, 49, 615),
    "edu": (235, 135, 95, 343),
    "org": (32, 123),
}
CHANGES = {"com": 0.3, "net": 0.25, "edu": 0.1, "org": 0.05}

ZIPF_SIZES: Mapping[str, Sequence[int]] = {
    "com": (131, 91, 91, 87, 91, 46, 61, 71),
    "net": (74, 84, 62, 92, 89, 105),
    "edu": (75, 95, 105, 113),
    "org": (82, 93),
}
SKEWS = {"com": 0.75, "net": 1.0, "edu": 1.5, "org": 2.0}


@dataclass(frozen=True, slots=True, eq=False)
class PageSet:
    """`p` is each page's probability of change in a slot, `sites` the page's site; the pages of a site are
    contiguous. `capacity` is the number of polls per slot of a node."""

    name: str
    p: npt.NDArray[np.float64]
    sites: npt.NDArray[np.intp]
    capacity: int

    @property
    def pages(self) -> int:
        return len(self.p)

    @property
    def sizes(self) -> list[int]:
        return [int(size) for size in np.bincount(self.sites)]

    def by_site(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sums over the pages of each site."""
        return np.bincount(self.sites, weights=values).astype(np.float64)


def domain_pages() -> PageSet:
    """Tests 1 and 2: 5028 pages of 20 sites.

    >>> domain_pages().pages
    5028
    """
    sizes = [size for domain in DOMAINS for size in SIZES[domain]]
    p = [CHANGES[domain] for domain in DOMAINS for _ in SIZES[domain]]
    return PageSet("test1", np.repeat(p, sizes), _sites(sizes), 400)


def zipf_pages() -> PageSet:
    """The Zipf and the dynamic test: 1738 pages of 20 sites.

    >>> zipf_pages().pages, float(zipf_pages().p.max())
    (1738, 1.0)
    """
    laws = [(size, SKEWS[domain]) for domain in DOMAINS for size in ZIPF_SIZES[domain]]
    p = np.concatenate([np.arange(1, size + 1) ** -skew for size, skew in laws])
    return PageSet("zipf", p, _sites([size for size, _ in laws]), 80)


def heavy_tailed_pages(
    rng: np.random.Generator, pages: int = 5000, median: float = 1 / 50, sigma: float = 2.0
) -> PageSet:
    """Log-normal change rates; p = 1 - exp(-rate). Twenty sites of the same size."""
    rates = median * np.exp(sigma * rng.standard_normal(pages))
    return PageSet("heavy", -np.expm1(-rates), np.arange(pages) * 20 // pages, 400)


def _sites(sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(len(sizes)), sizes)
