"""Runner of experiments with progress bars, and the options and output files of the lab commands.

On a terminal there is a bar for each running experiment; elsewhere one line for each finished experiment. An
output file appears under its name only when it is complete, so that Ctrl-C leaves no partial file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import click

from fieldmouse.cli import files, voice
from fieldmouse.errors import FieldmouseError
from fieldmouse.lab import engine, plot
from fieldmouse.lab.catalogue import Experiment, Verdict
from fieldmouse.lab.findings import LabFinding, tally, told

jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the number of cores",
    help="Run N experiments at the same time.",
)
plots = click.option(
    "--plots",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write each figure there as .svg and .png.",
)


def findings(
    experiments: Sequence[Experiment], *, jobs: int, show: Callable[[LabFinding], None] = lambda _: None
) -> list[LabFinding]:
    """Run experiments with progress output, and show each finding when it is done."""
    bars = voice.Bars(len(experiments)) if voice.on_terminal() else None
    done: list[LabFinding] = []
    try:
        with closing(engine.findings(experiments, jobs=jobs, watch=bars.show if bars else _nobody)) as found:
            for finding in found:
                done.append(finding)
                if bars is None:
                    show(finding)
                    voice.say(_line(finding))
                else:
                    bars.end(finding.id)
                    with bars.aside():
                        show(finding)
                        voice.finish()
    except KeyboardInterrupt:
        if bars:
            bars.close()
        voice.say(f"stopped by you after {len(done)} of {len(experiments)} experiments")
        raise click.exceptions.Exit(130) from None
    finally:
        if bars:
            bars.close()
    return done


def _nobody(name: str, share: float, doing: str) -> None:
    pass


def _line(finding: LabFinding) -> str:
    return f"{finding.id}: {told(tally([finding]))}, in {voice.duration(finding.seconds)}"


def prepare(*, files: Iterable[Path | None] = (), draws: bool = False) -> None:
    """Check before minutes of work that the files can be written and the figures drawn."""
    for path in files:
        place = next((above for above in path.absolute().parents if above.exists()), None) if path else None
        if place and not (place.is_dir() and os.access(place, os.W_OK)):
            raise FieldmouseError(f"cannot write in `{place}`", "choose another place")
    if draws:
        plot.prepare()


def draw(found: Sequence[LabFinding], directory: Path) -> None:
    """Write each figure of the findings as .svg and .png."""
    figures = [figure for finding in found for figure in finding.result.figures]
    for figure in figures:
        files.write(directory / f"{figure.name}.svg", plot.svg(figure), parents=True)
        files.write(directory / f"{figure.name}.png", plot.png(figure))
    voice.say(f"drew {len(figures)} figure{'s' if len(figures) != 1 else ''} in `{directory}`")


def judged(counts: Counter[Verdict]) -> int:
    """Exit code: 1 if a number differs for an unknown reason, else 0."""
    different = counts[Verdict.DIFFERENT]
    if different:
        voice.say(f"{different} number{' differs' if different == 1 else 's differ'} for an unknown reason")
        voice.hint("look for `different` above; in a paper it may be a misprint, in our code a mistake")
    return 1 if different else 0
