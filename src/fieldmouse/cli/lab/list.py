"""`fieldmouse lab list`: the experiments of the lab."""

from __future__ import annotations

import click

from fieldmouse.cli import options, voice


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab list
  fieldmouse lab list --json

Run one, or a whole group, with `fieldmouse lab run NAME`."""
)
@options.as_json
def command(as_json: bool) -> int:
    """List the experiments, by group."""
    from fieldmouse.lab import catalogue

    known = catalogue.chosen()
    if as_json:
        voice.json([{"id": one.id, "group": one.group, "title": one.title} for one in known])
        return 0
    width = max(len(one.id) for one in known)
    for group in dict.fromkeys(one.group for one in known):
        voice.data(group)
        for one in known:
            if one.group == group:
                voice.data(f"  {one.id:<{width}}  {one.title}")
    return 0
