"""The sieve at scale: cost per URL and memory, from a million offers to a hundred million.

Half of the offers were seen before, at any time since the beginning. Offers come in large batches, as in a
fast crawl; the last column is a sift of 2,000 links, for which a live crawl waits. Times are processor
times of the sieve, without the making of the keys.

    .venv/bin/python benchmarks/sieve.py [--offers 100000000]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fieldmouse.frontier.seen.sieve import DiskSieve

BATCH = 1 << 19


def keys_of(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64: the key of the n-th URL, so that earlier keys need not be stored."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class Source:
    """Offers of which half are new."""

    def __init__(self, seed: int = 7) -> None:
        self.rng = np.random.default_rng(seed)
        self.new = 0

    def batch(self, size: int) -> list[int]:
        fresh = np.arange(self.new, self.new + size // 2, dtype=np.uint64)
        self.new += fresh.size
        again = self.rng.integers(0, self.new, size - fresh.size, dtype=np.uint64)
        mixed: list[int] = keys_of(self.rng.permutation(np.concatenate([fresh, again]))).tolist()
        return mixed


def resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def play(offers: int, directory: Path) -> None:
    sieve: DiskSieve[int] = DiskSieve(directory)
    source = Source()
    steps = [n for n in (1, 3, 10, 30, 100, 300, 1000) if n * 10**6 < offers]
    stops = [n * 10**6 for n in steps] + [offers]
    print(
        f"{'offered':>12} {'seen':>12} {'us/URL':>8} {'us/URL so far':>14} {'runs':>5} {'peak MB':>8}"
        f" {'2,000 links':>12}"
    )
    offered = 0
    spent = whole = 0.0
    since = first = 0.0
    start_of_row = 0
    items = list(range(BATCH))
    for stop in stops:
        while offered < stop:
            size = min(BATCH, stop - offered)
            keys = source.batch(size)
            begun = time.process_time()
            sieve.offer(keys, items[:size])
            new = sieve.sift()
            sieve.seal()
            sieve.on_checkpoint_committed()
            spent += time.process_time() - begun
            assert len(new) == size // 2, "a key was lost or came out twice"
            offered += size
        since, whole = spent, whole + spent
        small = []
        for _ in range(20):
            keys = source.batch(2000)
            begun = time.process_time()
            sieve.offer(keys, items[:2000])
            sieve.sift()
            small.append(time.process_time() - begun)
        row = since / (offered - start_of_row) * 1e6
        first = first or row
        print(
            f"{offered:>12,} {sieve.seen:>12,} {row:>8.3f} {whole / offered * 1e6:>14.3f} {sieve.run_count:>5}"
            f" {resident_mb():>8.0f} {sorted(small)[10] * 1e3:>9.2f} ms"
        )
        spent, start_of_row = 0.0, offered
    print(f"\ncost per URL at {offered:,} against the first row: {row / first:.2f} times")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--offers", type=int, default=100_000_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        play(given.offers, Path(directory))


if __name__ == "__main__":
    main()
