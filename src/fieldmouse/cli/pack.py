"""`fieldmouse pack`: how many nodes the polls of a crawl need, and which sites go to which."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import files, options, voice

if TYPE_CHECKING:
    from fieldmouse.policy.packing.plan import PackedNode, PackingPlan, SiteMove, SiteShare

_NAMED = 4
"""Sites of a node that are named; `--json` names all."""

_MOVES = 12


@click.command(
    epilog="""\b
Examples:
  fieldmouse pack atlas --capacity 400
  fieldmouse pack atlas --capacity 400 --anew
  fieldmouse pack atlas --capacity 1000 --json
  fieldmouse pack east --with west --capacity 400"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--capacity", type=click.FloatRange(min=0, min_open=True), required=True, metavar="N",
    help="Polls an hour that a node is capable of.",
)  # fmt: skip
@click.option("--anew", is_flag=True, help="Pack from scratch; by default sites stay where they were.")
@options.also
@options.as_json
def command(directory: Path, capacity: float, anew: bool, others: tuple[Path, ...], as_json: bool) -> int:
    """Pack the sites of the crawl in DIRECTORY onto nodes that can poll so much.

    A site (a registered domain) weighs as many polls an hour as are planned for
    its pages now. The plan is kept as `pack.json` in the directory. Asked again,
    when weights have changed, a site stays on its node unless the node would
    overflow or nodes can be saved. A site that wants more than a node has is packed
    host by host. With --with the sites of several directories are packed, such as
    those of the agents of a network; the plan is kept in DIRECTORY.
    """
    import msgspec

    from fieldmouse.reading.packing import PLAN

    plan = options.opened(directory, others).packing(capacity, anew=anew)
    files.write(directory / PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=1))
    if as_json:
        voice.json(plan)
        return 0
    for line in _sentences(plan):
        voice.say(line)
    for line in _table(plan):
        voice.data(line)
    return 0


def _sentences(plan: PackingPlan) -> list[str]:
    needed = len(plan.nodes)
    enough = f"{voice.counted(needed, 'node')} of {voice.number(plan.capacity)} will do"
    bound = "fewer cannot" if needed == plan.at_least else f"at least {plan.at_least} are needed"
    polls = f"{voice.counted(plan.sites, 'site')} with {voice.number(plan.polls)} polls an hour"
    said = [f"{polls}: {enough}, and {bound}"]
    said += [_large(plan, site) for site in plan.large]
    if plan.moved:
        said.append(f"{voice.counted(len(plan.moved), 'site')} moved since the plan before:")
        said += [f"  {_move(move)}" for move in plan.moved[:_MOVES]]
        if len(plan.moved) > _MOVES:
            said.append(f"  and {len(plan.moved) - _MOVES} more; `--json` names all")
    return said


def _large(plan: PackingPlan, site: str) -> str:
    shares = [share for node in plan.nodes for share in node.sites if share.site == site]
    wants = f"{site} wants {voice.number(sum(share.polls for share in shares))}, more than a node has"
    hosts = {share.host for share in shares}
    cut = {share.host for share in shares if share.parts > 1}
    if not cut:
        return f"{wants}: its {voice.counted(len(hosts), 'host')} are packed one by one"
    parts = sum(1 for share in shares if share.host in cut)
    what = "it is" if len(hosts) == 1 else f"{voice.counted(len(cut), 'host')} of it {_are(len(cut))}"
    return f"{wants}: {what} cut into {parts} parts"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _move(move: SiteMove) -> str:
    part = f" (part {move.part})" if move.part > 1 else ""
    return f"{move.host or move.site}{part}: from node {move.before} to node {move.after}"


def _table(plan: PackingPlan) -> list[str]:
    rows = [("node", "polls/h", "full", "sites", "")]
    for node in plan.nodes:
        full = f"{node.polls / plan.capacity:.0%}"
        rows.append((str(node.node), voice.number(node.polls), full, str(len(node.sites)), _named(node)))
    return voice.columns(rows, right={0, 1, 2, 3})


def _named(node: PackedNode) -> str:
    names = ", ".join(map(_share, node.sites[:_NAMED]))
    more = len(node.sites) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _share(share: SiteShare) -> str:
    name = share.host or share.site
    return name if share.parts == 1 else f"{name} ({share.part} of {share.parts})"
