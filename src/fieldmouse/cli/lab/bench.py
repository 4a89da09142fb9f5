"""The lab's bench, seen from the command line: experiments under way, and files written whole.

On a terminal there is a bar for each running experiment; elsewhere each gets one
line when it is done. Whatever the command writes appears under its name only when
it is complete, so that Ctrl-C leaves nothing torn.
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
    help="How many experiments run at the same time.",
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
    """Run experiments where people can watch, and show each finding as it comes."""
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
    """Find out now, and not after minutes of work, that something could not be written or drawn."""
    for path in files:
        place = next((above for above in path.absolute().parents if above.exists()), None) if path else None
        if place and not (place.is_dir() and os.access(place, os.W_OK)):
            raise FieldmouseError(f"cannot write in `{place}`", "choose another place")
    if draws:
        plot.prepare()


def draw(found: Sequence[LabFinding], directory: Path) -> None:
    """Each figure of the findings as a file for papers and one for slides."""
    figures = [figure for finding in found for figure in finding.result.figures]
    for figure in figures:
        files.write(directory / f"{figure.name}.svg", plot.svg(figure), parents=True)
        files.write(directory / f"{figure.name}.png", plot.png(figure))
    voice.say(f"drew {len(figures)} figure{'s' if len(figures) != 1 else ''} in `{directory}`")


def judged(counts: Counter[Verdict]) -> int:
    """The exit code: a number that differs for no known reason is a failure."""
    different = counts[Verdict.DIFFERENT]
    if different:
        voice.say(f"{different} number{' is' if different == 1 else 's are'} different, and nobody knows why")
        voice.hint("look for `different` above; in a paper it may be a misprint, in our code a mistake")
    return 1 if different else 0
