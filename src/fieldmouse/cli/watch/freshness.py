"""`fieldmouse freshness`: freshness of the copies, and the effect of other budgets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.config import values

if TYPE_CHECKING:
    from fieldmouse.reader.freshness import FreshnessReport


_BAR = 40


@click.command(
    epilog="""\b
Examples:
  fieldmouse freshness atlas
  fieldmouse freshness atlas --budget 100/h --budget 1000/h
  fieldmouse freshness atlas --window 1d --json
  fieldmouse freshness atlas --policy my_policies:Weekly
  fieldmouse freshness east --with west"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--budget", "budgets", metavar="RATE", multiple=True, help="Estimate this budget (500/h); repeatable.")
@click.option("--window", metavar="T", default="7d", show_default=True, help="Measure at most this far back.")
@click.option("--policy", metavar="NAME", help="Plan with this polling policy; by default that of the last refresh.")
@options.with_option
@options.json_option
def command(
    directory: Path, budgets: tuple[str, ...], window: str, policy: str | None, others: tuple[Path, ...], as_json: bool
) -> None:
    """Show how fresh the copies in DIRECTORY are, and how useful the polls are.

    "Expected" is the share of copies that are current now, estimated from the
    observed changes. "Measured" is the share of time in which copies were current;
    a change is placed within the time since the previous poll. The command may run
    while the crawl runs.
    """
    read = partial(options.parse_quantity, allow_zero=False)
    rates = [3600 / read(values.interval, text, "--budget", "rate", "--budget 500/h") for text in budgets]
    seconds = read(values.seconds, window, "--window", "duration", "--window 7d")
    report = options.open_reader(directory, others).freshness(budgets=rates, window=seconds, policy=policy)
    if as_json:
        console.print_json(report)
        return
    console.print_lines(_sentences(report, is_chosen=policy is not None))
    if report.curve:
        console.print_data()
        console.print_lines(_curve(report))
    console.print_lines(_most_polled(report))


def _sentences(report: FreshnessReport, *, is_chosen: bool) -> list[str]:
    pages = console.format_count(report.pages, "page")
    if not report.polls:
        return [f"{pages}, none of them polled yet: their changes are unknown"]
    useful = f"{report.useful_ratio or 0.0:.0%} of them found a change"
    polls = f"{pages}, {console.format_count(report.polls, 'poll')} so far; {useful}"
    if report.expected is None:
        return [polls, "too few polls to estimate the freshness"]
    sentences = [polls, f"expected: {report.expected:.1%} of the copies are current now"]
    if report.measured is None or report.window is None:
        sentences.append("measured: too few pages were polled twice")
    else:
        span = console.format_duration(report.window[1] - report.window[0])
        sentences.append(f"measured: copies were current {report.measured:.1%} of the time in the last {span}")
    pace = f"budget: {_rate(report.budget)}" if report.budget else "budget: no rate limit"
    if report.polls_an_hour and (not report.budget or report.polls_an_hour < 0.9 * report.budget):
        pace += f", {_rate(report.polls_an_hour)} made in the measured time"
    plan = "planned by" if is_chosen else "policy of the last refresh:"  # whose code may not be loaded here
    return [*sentences, f"{pace}, {plan} `{report.policy}`"]


def _rate(an_hour: float) -> str:
    """
    >>> _rate(500), _rate(0.5), _rate(72_000)
    ('500/h', '12/d', '20/s')
    """
    if an_hour < 1:
        return f"{console.format_number(an_hour * 24)}/d"
    return f"{console.format_number(an_hour)}/h" if an_hour < 36_000 else f"{console.format_number(an_hour / 3600)}/s"


def _curve(report: FreshnessReport) -> list[str]:
    present = report.budget or report.polls_an_hour
    rows = [("budget", "long-run freshness", "")]
    for point in report.curve:
        bar = "#" * round(_BAR * point.fresh)
        here = present is not None and abs(point.budget - present) < 1e-6 * present
        rows.append((_rate(point.budget), f"{point.fresh:.1%}", f"{bar} <- now" if here else bar))
    return list(console.align_columns(rows, right=(0, 1)))


def _most_polled(report: FreshnessReport) -> list[str]:
    lines: list[str] = []
    if report.top_hosts:
        rows = [("polls", "changes", "pages", "most polled hosts")]
        for host in report.top_hosts:
            polls, changes, pages = map(console.format_number, (host.polls, host.changes, host.pages))
            rows.append((polls, changes, pages, host.host))
        lines += ["", *console.align_columns(rows, right=(0, 1, 2))]
    if report.top_pages:
        rows = [("polls", "changes", "every", "most polled pages")]
        for page in report.top_pages:
            every = console.format_duration(page.every) if page.every else "-"
            rows.append((console.format_number(page.polls), console.format_number(page.changes), every, page.url))
        lines += ["", *console.align_columns(rows, right=(0, 1, 2))]
    return lines
