"""Accuracy of `near_duplicate_of`: the marks of real pages against the exact Jaccard index of all pairs.

The arguments are directories with HTML pages, such as unpacked documentation packages; each is a separate
corpus. Its pages are read as the crawler reads them and are offered in random order to the crawler's table
of marks. The result is compared with the truth, computed by brute force: the set of shingles of every
page, compared with every other.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import scipy.sparse
import xxhash
from table import aligned, say

from fieldmouse.archive.duplicate_detection import DigestStore, compute_sketch, max_sketch_distance
from fieldmouse.parse.charset import decode_text, find_charset
from fieldmouse.parse.content import MAX_HTML
from fieldmouse.parse.html import parse_html
from fieldmouse.url import Url

ALIKE, ALMOST_THE_SAME = 0.6, 0.9  # promised for named pages; none above it should be missed
_LEAST = 0.4  # pairs that share less are not listed
_BLOCK = 256


class Score(msgspec.Struct):
    """Counts, which add up over corpora."""

    pages: int = 0
    named: int = 0
    rightly: int = 0  # of those named, with J >= 0.6 to the one they are named after
    pairs: int = 0  # with J >= 0.9
    within_reach: int = 0
    followers: int = 0  # pages with an earlier one of J >= 0.9
    followers_named: int = 0

    def __add__(self, other: Score) -> Score:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Score(*(a + b for a, b in zip(mine, theirs, strict=True)))


def texts(directory: Path, most: int) -> list[str]:
    """Text of each HTML page, as the crawler reads it."""
    found = []
    for path in sorted(directory.rglob("*.htm*")):
        if path.is_symlink() or not path.is_file() or path.suffix not in (".html", ".htm"):
            continue
        body = path.read_bytes()[:MAX_HTML]
        charset = find_charset(body, "")
        found.append(parse_html(decode_text(body, charset), Url("http://example.org/")).text)
        if len(found) == most:
            break
    return found


def alike(pages: list[str]) -> dict[tuple[int, int], float]:
    """Exact Jaccard index of every pair that shares enough."""
    rows: list[int] = []
    columns: list[int] = []
    number: dict[int, int] = {}
    sizes = np.zeros(len(pages))
    for row, text in enumerate(pages):
        words = text.split()
        shingles = {xxhash.xxh3_64_intdigest(" ".join(words[at : at + 4]).encode()) for at in range(len(words) - 3)}
        sizes[row] = len(shingles)
        rows += [row] * len(shingles)
        columns += [number.setdefault(shingle, len(number)) for shingle in shingles]
    table = scipy.sparse.csr_matrix(
        (np.ones(len(rows), np.float32), (rows, columns)), shape=(len(pages), max(1, len(number)))
    )
    found: dict[tuple[int, int], float] = {}
    for at in range(0, len(pages), _BLOCK):
        shared = (table[at : at + _BLOCK] @ table.T).toarray()
        union = np.maximum(1, sizes[at : at + _BLOCK, None] + sizes[None, :] - shared)
        share = shared / union
        for i, j in zip(*np.nonzero(share >= _LEAST), strict=True):
            if at + int(i) < int(j):
                found[at + int(i), int(j)] = float(share[i, j])
    return found


def score(pages: list[str], rng: random.Random) -> Score:
    """Offer the pages in random order, and compare the result with the truth."""
    truth = alike(pages)
    marks = [compute_sketch(text) for text in pages]
    partners = defaultdict(list)
    result = Score(pages=len(pages))
    for (i, j), share in truth.items():
        if share >= ALMOST_THE_SAME:
            partners[i].append(j)
            partners[j].append(i)
            result.pairs += 1
            allowed = min(max_sketch_distance(marks[i][1]), max_sketch_distance(marks[j][1]))
            result.within_reach += bool(marks[i][0]) and _distance(marks[i][0], marks[j][0]) <= allowed
    order = list(range(len(pages)))
    rng.shuffle(order)
    earlier: set[int] = set()
    with tempfile.TemporaryDirectory() as name:
        doubles = DigestStore(Path(name))
        for turn, page in enumerate(order):
            mark, words = marks[page]
            place = doubles.find_similar(mark, max_sketch_distance(words))
            if place is not None:
                result.named += 1
                result.rightly += truth.get((min(page, place), max(page, place)), 0.0) >= ALIKE
            if any(partner in earlier for partner in partners[page]):
                result.followers += 1
                result.followers_named += place is not None
            doubles.remember_page(1 + turn // 500, page.to_bytes(20, "big"), mark, page)
            if turn % 500 == 499:
                doubles.write_committed(1 + turn // 500)
            earlier.add(page)
        doubles.close()
    return result


def _distance(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def rows(scores: dict[str, Score]) -> Iterator[list[str]]:
    for name, one in scores.items():
        yield [
            name,
            f"{one.pages:,}",
            f"{one.named:,}",
            f"{_share(one.rightly, one.named)}",
            f"{one.pairs:,}",
            f"{_share(one.within_reach, one.pairs)}",
            f"{one.followers_named} of {one.followers}",
        ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How well near-duplicates are told, on real pages.")
    parser.add_argument("directories", nargs="+", type=Path, help="each a corpus: all HTML files below it")
    parser.add_argument("--pages", type=int, default=2500, help="of each at most (default: 2500)")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which pages come (default: 1)")
    asked = parser.parse_args(words)
    scores: dict[str, Score] = {}
    for directory in asked.directories:
        pages = texts(directory, asked.pages)
        say(f"{directory.name}: {len(pages)} pages")
        if pages:
            scores[directory.name] = score(pages, random.Random(asked.seed))
    scores["all"] = sum(scores.values(), Score())
    header = ["corpus", "pages", "named", "J >= 0.6", "pairs J >= 0.9", "within reach", "followers named"]
    print(aligned(header, list(rows(scores))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
