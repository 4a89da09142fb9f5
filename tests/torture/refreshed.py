"""A crawl that is refreshed, after a day in which pages came, went, changed and moved.

The meadow stands still twice: it is crawled as it was, and refreshed as it is a day later, so what a
refresh must come to is known. All cases begin with a copy of the same crawl. It was refreshed once before, by
another policy: the ledger of known pages is written anew in the refresh that is hurt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fieldmouse
from meadowland import running_meadow

from .scene import CALM, MEADOW, SETTINGS, Row, Scene, contact, copy, run

BEGAN = 1.7e9
DAY = 86_400.0
FEED = "changes.atom"
KINDS = ("new", "changed", "gone", "moved")
LIVELY: dict[str, Any] = MEADOW | {
    "hosts": 8,
    "pages": 50,
    "gamma": 0.3,
    "links": 12,
    "began": BEGAN,
    "changing": 0.4,
    "change_every": DAY,
    "rewriting": True,
    "appearing": 0.5,
    "vanishing": 0.3,
    "moving": 0.2,
    "staying": DAY / 2,
}


@dataclass
class RefreshedScene(Scene):
    """`words` refresh a copy of `crawled`; the truth has each change, too, and whether the feed tells it."""

    crawled: Path = Path()

    def words(self, home: Path, *more: str) -> list[str]:
        if not home.exists():
            copy(self.crawled, home)
        told = ("--set", f"crawl.contact={contact(home)}")
        return ["refresh", str(home), "--once", "--policy", "automaton", *told, *more]

    def outcomes(self, home: Path) -> dict[str, Row]:
        """A page that has not changed is what it was before: its row says only that."""
        rows = super().outcomes(home)
        for page in fieldmouse.open(home).pages():
            digest = sha1(page.body).hexdigest()
            rows[page.url] = ("page", page.status, page.title, digest)
        return rows | changes(home)

    def check(self) -> None:
        found = {kind: {key.split()[1] for key in self.truth if key.startswith(f"{kind} ")} for kind in KINDS}
        assert all(found.values()), "there is one of each"
        pages = {url for url, row in self.truth.items() if row[0] == "page"}
        assert pages == self.meadow.pages() - found["gone"] - found["moved"] | found["new"]


def changes(home: Path) -> dict[str, Row]:
    """Every change that is listed, how often, and whether the feed tells it."""
    feed = home / FEED
    atom = "{http://www.w3.org/2005/Atom}"
    entries = ElementTree.parse(feed).getroot().iter(f"{atom}entry") if feed.exists() else ()
    told = Counter(link.get("href") for entry in entries for link in entry.iter(f"{atom}link"))
    listed = Counter((one.kind, one.url, one.target) for one in fieldmouse.open(home).changes())
    return {f"{kind} {url}": (target, count, told[url]) for (kind, url, target), count in listed.items()}


@contextmanager
def refreshed_scene(scratch: Path) -> Iterator[RefreshedScene]:
    settings = SETTINGS | {"notify.feed": FEED, "refresh.policy": "uniform"}
    home = scratch / "crawled" / "c"
    home.parent.mkdir(parents=True)
    with running_meadow(**LIVELY, stands_at=BEGAN) as before:
        first = Scene(before, scratch, settings)
        assert run(first.words(home, *CALM)).code == 0
        assert run(["refresh", str(home), "--once", *CALM]).code == 0
    with running_meadow(**LIVELY | {"port": before.port}, stands_at=BEGAN + DAY) as after:
        made = RefreshedScene(after, scratch, settings, crawled=home)
        made.learn()
        yield made
