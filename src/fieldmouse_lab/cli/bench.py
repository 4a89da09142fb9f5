"""Running experiments from the command line: progress, interruption, and files of results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from threading import Thread, Timer
from typing import Any, ParamSpec, TypeVar

import click

from fieldmouse.cli import console, output_file
from fieldmouse.errors import FieldmouseError
from fieldmouse_lab import engine, plot
from fieldmouse_lab.catalogue import Experiment, Figure, Verdict
from fieldmouse_lab.findings import LabFinding, summarise, tally

jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the number of cores",
    help="Run N experiments at the same time.",
)
plots_option = click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write each figure to DIR as .svg and .png.",
)
model_file_argument = click.argument("file", type=click.Path(path_type=Path, allow_dash=True))

F = TypeVar("F", bound=Callable[..., Any])


def default_option(name: str, default: float, help: str, metavar: str | None = None) -> Callable[[F], F]:
    """Return an option that takes a number of the type of its default."""
    return click.option(name, type=type(default), default=default, show_default=True, metavar=metavar, help=help)


def choice_option(name: str, values: Sequence[str], help: str, default: str | None = None) -> Callable[[F], F]:
    """Return an option that takes one of these values."""
    return click.option(name, type=click.Choice(values), default=default, show_default=bool(default), help=help)


def file_option(name: str, help: str, default: str | None = None) -> Callable[[F], F]:
    """Return an option that takes the path of a file to write."""
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option(name, type=path, metavar="FILE", default=default, show_default=bool(default), help=help)


def events_option(default: int, help: str) -> Callable[[F], F]:
    return click.option("--events", type=click.IntRange(1000, 10**9), default=default, show_default=True, help=help)


seed_option = default_option("--seed", 1, "Seed of the random numbers.")

_PATIENCE = 2.0  # seconds: a kernel compiled earlier is usually loaded by then


def print_table(rows: Iterable[tuple[str, ...]], right: Container[int] = ()) -> None:
    for line in console.align_columns(rows, right=right):
        console.print_data(line)


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Print a note if the compilation in this context takes long."""
    notice = Timer(_PATIENCE, console.message, [f"loading the {what}; the first time it is compiled (once)"])
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def run_experiments(
    experiments: Sequence[Experiment], *, jobs: int, show: Callable[[LabFinding], None] | None = None
) -> list[LabFinding]:
    """Run experiments with progress output, and show each finding when it is done."""
    bars = console.TaskProgressBars(len(experiments)) if console.messages_on_terminal() else None
    done: list[LabFinding] = []
    try:
        with closing(
            engine.run_experiments(experiments, jobs=jobs, watch=bars.show if bars else lambda *_: None)
        ) as found:
            for finding in found:
                done.append(finding)
                if bars:
                    bars.task_done(finding.id)
                with bars.hidden() if bars else nullcontext():
                    if show:
                        show(finding)
                    console.flush()
                if bars is None:
                    console.message(_line(finding))
    except KeyboardInterrupt:
        if bars:
            bars.close()
        console.message(f"stopped by you after {len(done)} of {len(experiments)} experiments")
        raise click.exceptions.Exit(130) from None
    finally:
        if bars:
            bars.close()
    return done


def _line(finding: LabFinding) -> str:
    return f"{finding.id}: {summarise(tally([finding]))}, in {console.format_duration(finding.seconds)}"


def check_outputs(*, files: Iterable[Path | None] = (), draws: bool = False) -> None:
    """Check before minutes of work that the files can be written and the figures drawn."""
    for path in files:
        place = next((above for above in path.absolute().parents if above.exists()), None) if path else None
        if place and not (place.is_dir() and os.access(place, os.W_OK)):
            raise FieldmouseError(f"cannot write in `{place}`", "choose another place")
    if draws:
        plot.require_matplotlib()


def write_figure(path: Path, figure: Figure, *, parents: bool = True) -> None:
    picture = plot.render_png(figure) if path.suffix == ".png" else plot.render_svg(figure)
    output_file.write_output(path, picture, parents=parents)


def write_figures(found: Sequence[LabFinding], directory: Path) -> None:
    """Write each figure of the findings as .svg and .png."""
    figures = [figure for finding in found for figure in finding.result.figures]
    for figure in figures:
        write_figure(directory / f"{figure.name}.svg", figure)
        write_figure(directory / f"{figure.name}.png", figure)
    console.message(f"drew {len(figures)} figure{'s' if len(figures) != 1 else ''} in `{directory}`")


def exit_code(counts: Counter[Verdict]) -> int:
    """Exit code: 1 if a number differs for an unknown reason, else 0."""
    different = counts[Verdict.DIFFERENT]
    if different:
        console.message(f"{different} number{' differs' if different == 1 else 's differ'} for an unknown reason")
        console.hint("look for `different` above; in a paper it may be a misprint, in our code a mistake")
    return 1 if different else 0


P = ParamSpec("P")
T = TypeVar("T")


def interruptible(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a daemon thread and return or raise its result.

    >>> interruptible(divmod, 7, 3)
    (2, 1)
    """
    future: Future[T] = Future()

    def compute() -> None:
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as trouble:  # raised in the waiting thread
            future.set_exception(trouble)

    Thread(target=compute, daemon=True).start()
    return future.result()
