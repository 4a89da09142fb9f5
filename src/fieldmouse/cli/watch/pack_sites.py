"""`fieldmouse pack`: nodes that the polls of a crawl need, and the sites of each node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fieldmouse.cli import console, options, output_file

if TYPE_CHECKING:
    from fieldmouse.policy.site_packing.plan import PackedNode, PackingPlan, SiteMove, SiteShare


#: Sites named per node; `--json` names all.
_NAMED = 4

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
    "--capacity", type=click.FloatRange(0, min_open=True), required=True, metavar="N", help="Polls/h of a node."
)
@click.option("--anew", is_flag=True, help="Pack from scratch; by default sites stay on their nodes.")
@options.with_option
@options.json_option
def command(directory: Path, capacity: float, anew: bool, others: tuple[Path, ...], as_json: bool) -> None:
    """Assign the sites of the crawl in DIRECTORY to as few nodes as possible.

    The weight of a site (a registered domain) is the number of polls an hour that
    are planned for its pages. The plan is stored as `pack.json` in the directory.
    When the command runs again with changed weights, a site stays on its node unless
    the node would overflow or nodes can be saved. A site that needs more than one
    node is packed host by host. With --with the sites of several directories are
    packed, such as those of the agents of a cluster; the plan is stored in DIRECTORY.
    """
    import msgspec

    from fieldmouse.reader.polling_and_packing_plans import PLAN_FILE

    plan = options.open_reader(directory, others).packing_plan(capacity, anew=anew)
    output_file.write_output(directory / PLAN_FILE, msgspec.json.format(msgspec.json.encode(plan), indent=1))
    if as_json:
        console.print_json(plan)
        return
    for line in _sentences(plan):
        console.message(line)
    console.print_lines(_table(plan))


def _sentences(plan: PackingPlan) -> list[str]:
    needed = len(plan.nodes)
    enough = f"{console.format_count(needed, 'node')} of {console.format_number(plan.capacity)}"
    bound = "the minimum" if needed == plan.at_least else f"at least {plan.at_least}"
    polls = f"{console.format_count(plan.sites, 'site')} with {console.format_number(plan.polls)} polls an hour"
    sentences = [f"{polls} need {enough} ({bound})"]
    sentences += [_large(plan, site) for site in plan.large]
    if plan.moved:
        sentences.append(f"{console.format_count(len(plan.moved), 'site')} moved since the previous plan:")
        sentences += [f"  {_move(move)}" for move in plan.moved[:_MOVES]]
        if len(plan.moved) > _MOVES:
            sentences.append(f"  and {len(plan.moved) - _MOVES} more; `--json` lists all")
    return sentences


def _large(plan: PackingPlan, site: str) -> str:
    shares = [share for node in plan.nodes for share in node.sites if share.site == site]
    needs = f"{site} needs {console.format_number(sum(share.polls for share in shares))}, more than one node has"
    hosts = {share.host for share in shares}
    cut = {share.host for share in shares if share.parts > 1}
    if not cut:
        return f"{needs}: its {console.format_count(len(hosts), 'host')} are packed separately"
    parts = sum(1 for share in shares if share.host in cut)
    what = "it" if len(hosts) == 1 else f"{len(cut)} of its {len(hosts)} hosts"
    return f"{needs}: {what} {'is' if len(cut) == 1 else 'are'} cut into {parts} parts"


def _move(move: SiteMove) -> str:
    part = f" (part {move.part})" if move.part > 1 else ""
    return f"{move.host or move.site}{part}: from node {move.before} to node {move.after}"


def _table(plan: PackingPlan) -> list[str]:
    rows = [("node", "polls/h", "full", "sites", "")]
    for node in plan.nodes:
        full = f"{node.polls / plan.capacity:.0%}"
        rows.append((str(node.node), console.format_number(node.polls), full, str(len(node.sites)), _site_names(node)))
    return console.align_columns(rows, right={0, 1, 2, 3})


def _site_names(node: PackedNode) -> str:
    names = ", ".join(map(_share, node.sites[:_NAMED]))
    more = len(node.sites) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _share(share: SiteShare) -> str:
    name = share.host or share.site
    return name if share.parts == 1 else f"{name} ({share.part} of {share.parts})"
