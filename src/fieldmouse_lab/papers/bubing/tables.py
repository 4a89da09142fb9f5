"""Tables 7.1, 7.2 and 8.1 to 8.10 of the thesis, cell by cell.

Tables 7.1, 7.2 and 8.3 are deterministic: the first two follow from the power law, the third from the
counts printed in 8.1. All others give the number of elephants that a game has named, or their share of the
source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from fieldmouse_lab.catalogue import Progress, Result, Sample, experiment, new_row, with_progress
from fieldmouse_lab.papers.bubing import printed
from fieldmouse_lab.papers.bubing.games import Queues, play_elephants, power_law
from fieldmouse_lab.papers.bubing.printed import PLACES, SEEDS, UrnCell, compare_exact, printed_tables

#: Steps of the games behind tables 8.4 and 8.6 to 8.10, which use different times of them.
GAME_STEPS = {"per-host": 300_000, "one": 600_000}


def _count_known(cell: UrnCell) -> int:
    """Count the elephants known from the start: hosts with a probability of 1/(beta K) or more."""
    return int((power_law(cell.column).p >= (1 - 1e-12) / (cell.row * PLACES)).sum())


def _largest(gamma: float, count: int) -> float:
    return float(power_law(gamma).p[:count].sum())


def _printed_count(cell: UrnCell) -> int:
    return int(printed_tables()["8.1"].cell(cell.row, cell.column).printed)


#: What deterministic tables print, and their remarks.
EXACT: dict[str, tuple[Callable[[UrnCell], float], tuple[str, ...]]] = {
    "7.1": (_count_known, ("a host is an elephant if its probability is 1/(beta K) or more",)),
    "7.2": (lambda cell: _largest(cell.column, _count_known(cell)), ()),
    "8.3": (
        lambda cell: _largest(cell.column, _printed_count(cell)),
        ("computed from the number of elephants printed in Table 8.1",),
    ),
}


def compare_exact_table(
    number: str, ours: Callable[[UrnCell], float], remarks: tuple[str, ...], progress: Progress
) -> Result:
    rows = [compare_exact(cell.label, cell.printed, ours(cell)) for cell in printed_tables()[number].cells]
    return Result(tuple(rows), remarks=remarks)


def _count(queues: Queues, cell: UrnCell) -> Sample:
    return play_elephants(cell.column, cell.row, queues).elephants[200_000]


def _share(cell: UrnCell) -> Sample:
    return play_elephants(cell.column, cell.row, "per-host").share


def _at(queues: Queues, cell: UrnCell) -> Sample:
    return play_elephants(0.9, cell.row, queues, GAME_STEPS[queues]).elephants[int(cell.column)]


def compare_table(number: str, ours: Callable[[UrnCell], Sample], remarks: Sequence[str], progress: Progress) -> Result:
    """Compare every cell of a simulated table with the mean of our games."""
    cells = with_progress(printed_tables()[number].cells, progress, lambda cell: cell.label)
    rows = [printed.compare_simulated(cell.label, cell.printed, ours(cell), number) for cell in cells]
    rule = (
        f"{SEEDS} games per cell; a printed number, from one game, is the same if it is within "
        f"{printed.interval_width(SEEDS):.1f} spreads of our mean"
    )
    return Result(tuple(rows), remarks=(*remarks, rule, printed.describe_residuals(rows)))


def table_8_5(progress: Progress) -> Result:
    """Compare Table 8.5 and add the game that the thesis left out because of its computation time."""
    result = compare_table("8.5", partial(_count, "one"), ("T = 200000",), progress)
    missing = new_row(
        "delta 1, gamma 1.3",
        play_elephants(1.3, 1, "one").elephants[200_000],
        "the thesis left this game out because of its computation time",
    )
    return Result((*result.rows, missing), remarks=result.remarks)


STOPPED = "the number when the search ends is that of any game at this time: T* changes only the later steps"

#: What simulated tables count, and their remarks.
SIMULATED: dict[str, tuple[Callable[[UrnCell], Sample], tuple[str, ...]]] = {
    "8.1": (partial(_count, "per-host"), ("T = 200000",)),
    "8.2": (_share, ("T = 200000",)),
    "8.4": (partial(_at, "per-host"), ("gamma = 0.9",)),
    "8.6": (partial(_at, "one"), ("gamma = 0.9",)),
    "8.7": (partial(_at, "one"), ("gamma = 0.9",)),
    "8.8": (partial(_at, "one"), ("gamma = 0.9; one game along each row",)),
    "8.9": (partial(_at, "one"), ("gamma = 0.9; one game along each row",)),
    "8.10": (partial(_at, "one"), ("gamma = 0.9", STOPPED)),
}
RUNS: dict[str, Callable[[Progress], Result]] = {
    **{number: partial(compare_exact_table, number, *ways) for number, ways in EXACT.items()},
    "8.5": table_8_5,
    **{number: partial(compare_table, number, *ways) for number, ways in SIMULATED.items()},
}

EXPERIMENTS = tuple(
    experiment(
        f"thesis-table-{number}",
        f"Table {number}. {table.title}",
        RUNS[number],
        f"C = 100000 colours, K = 1000 places, a power law; {table.down} down and {table.across} across.",
        group="urn",
        shares="" if number in EXACT else "thesis games",
    )
    for number, table in printed_tables().items()
)
