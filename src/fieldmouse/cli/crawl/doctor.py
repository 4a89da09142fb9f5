"""`fieldmouse doctor`: check and repair of a crawl directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import CrawlDirError

if TYPE_CHECKING:
    from fieldmouse.storage.directory import CrawlDir


@click.command(
    epilog="""\b
Examples:
  fieldmouse doctor atlas
  fieldmouse doctor atlas --deep
  fieldmouse doctor atlas --repair

Exit code 0 means healthy, 1 that something needs repair."""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Also read every WARC file in full and verify its checksums.")
@click.option("--repair", is_flag=True, help="First rebuild damaged parts from the rest of the crawl.")
@options.json_option
def command(directory: Path, deep: bool, repair: bool, as_json: bool) -> int:
    """Check the crawl in DIRECTORY: settings, disk, journal, frontier, WARC files, index.

    It may run while the crawl runs. It also checks the counts: every accepted URL
    must be settled or waiting. Only --repair changes files: it rebuilds a damaged
    journal, CDXJ, digest store or index.
    """
    from fieldmouse.doctor.check.check_result import open_for_check

    try:
        repairs = _repair(directory) if repair else []
        return _check(open_for_check(directory), deep, as_json, repairs)
    except OSError as trouble:
        where = trouble.filename or directory
        raise CrawlDirError(
            f"cannot read `{where}`: {trouble.strerror or trouble}", "make the whole directory readable"
        ) from trouble


def _repair(directory: Path) -> list[str]:
    from fieldmouse.doctor.repair.repair import repair_directory

    repairs = []
    for sentence in repair_directory(directory):
        repairs.append(sentence)
        console.message(f"repaired: {sentence}")
    return repairs


def _check(home: CrawlDir, deep: bool, as_json: bool, repairs: list[str]) -> int:
    from fieldmouse.doctor.check.examine import check_crawl

    findings = list(check_crawl(home, deep=deep))
    healthy = all(finding.healthy for finding in findings)
    if as_json:
        console.print_json({"healthy": healthy, "findings": findings, "mended": repairs})
        return 0 if healthy else 1
    born = home.identity
    console.print_data(
        f"crawl `{home.path}`, format {born.format}, made by {born.made_by} on {console.format_time(born.created_at)}"
    )
    for finding in findings:
        mark = "ok " if finding.healthy else "BAD"
        console.print_data(f"  {mark}  {finding.what:<9} {finding.says}")
        if finding.advice:
            console.print_data(f"       {'':<9} -> {finding.advice}")
    console.print_data("healthy" if healthy else "something needs repair")
    return 0 if healthy else 1
