"""Filler for pages: script state that adds size but neither text nor links."""

from __future__ import annotations

from fieldmouse.lab.meadow.dice import throw
from fieldmouse.lab.meadow.piece import Piece, ready
from fieldmouse.lab.meadow.words import FLAT

_SMALLEST = 512
_CLASSES = 8  # each twice as large as the previous one
_VARIANTS = 8


class Fillers:
    """Precompressed fillers in doubling sizes, so that any gap needs few of them."""

    def __init__(self, seed: int):
        self._classes = [
            [_filler(seed, _SMALLEST << size, variant) for variant in range(_VARIANTS)]
            for size in range(_CLASSES)
        ]

    def take(self, missing: int, choice: int) -> list[Piece]:
        """Return pieces of about `missing` bytes in total; none if that is less than the smallest piece."""
        taken = []
        while missing >= _SMALLEST:
            size = min((missing // _SMALLEST).bit_length(), _CLASSES) - 1
            piece = self._classes[size][choice % _VARIANTS]
            choice >>= 3
            taken.append(piece)
            missing -= len(piece.plain)
        return taken


def _filler(seed: int, size: int, variant: int) -> Piece:
    cells: list[str] = []
    length = 0
    while length < size - 60:
        for face in throw(seed, "filler", size, variant, len(cells)):
            cells.append(f'"{FLAT[face % len(FLAT)]}":{{"id":{face >> 12},"on":{face & 3}}}')
            length += len(cells[-1]) + 1
            if length >= size - 60:
                break
    return ready(f'<script type="application/json">{{{",".join(cells)}}}</script>\n')
