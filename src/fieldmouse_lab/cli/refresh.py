"""`fieldmouse lab refresh`: freshness that a polling policy reaches on randomly changing pages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from fieldmouse.cli import console, options
from fieldmouse.errors import UsageError
from fieldmouse_lab.cli.bench import choice_option, default_option, interruptible, print_table, seed_option

if TYPE_CHECKING:
    from fieldmouse_lab.refresh.contest import PageSet


POPULATIONS = ("test1", "zipf", "heavy")
POLICIES = ("automaton", "uniform", "proportional", "learned", "optimal", "harmonic", "multiplicative")


@click.command(
    epilog="""\b
Examples:
  fieldmouse lab refresh --population heavy --policy learned
  fieldmouse lab refresh --population test1 --policy automaton --states 16 --json
  fieldmouse lab refresh --population zipf --policy uniform --budget tight --slots 4000
  fieldmouse lab refresh --policy learned --switch-every 2000 --seed 4"""
)
@choice_option(
    "--population",
    POPULATIONS,
    "5,028 pages with a rate per domain, 1,738 with a Zipf law per site, or 5,000 with log-normal rates.",
    "test1",
)
@default_option("--states", 16, "States of an automaton.", "N")
@default_option("--slots", 10_000, "Number of slots.", "T")
@choice_option("--policy", POLICIES, "Polling policy.", "learned")
@choice_option("--spacing", ["random", "even"], "Spacing of a page's polls. [automaton: random, all others: even]")
@click.option(
    "--budget",
    default="natural",
    show_default=True,
    metavar="B",
    help="Polls per slot: a number, natural (what automata of 16 states use) or tight (1.1 pages / N).",
)
@click.option(
    "--switch-every", type=int, default=0, metavar="T", help="Reassign the change rates at random every T slots."
)
@seed_option
@options.json_option
def command(as_json: bool, **given: Any) -> int:
    """Play a polling policy on pages whose probability to change in a slot is known.

    In a slot pages change, some are polled, the policy learns from the results, and
    freshness is measured. All results are means over the last half, except the weight
    and the bins (the final plan, packed onto nodes by Best Fit Decreasing). Updates are
    polls that found a change, as a share of all pages.
    """
    for option, least in (("states", 2), ("slots", 2), ("switch_every", 0), ("seed", 0)):
        if given[option] < least:
            said = option.replace("_", "-")
            raise UsageError(f"`--{said} {given[option]}` is too small", f"give {least} or more")

    from fieldmouse.policy.site_packing.bin_packing import best_fit_decreasing
    from fieldmouse_lab.refresh import contest
    from fieldmouse_lab.refresh.slots import Spacing

    pages = contest.POPULATIONS[given["population"]](given["seed"])
    started = time.perf_counter()
    course = interruptible(
        contest.play_policy,
        pages,
        given["policy"],
        seed=given["seed"],
        slots=given["slots"],
        budget=_budget(given["budget"], pages, given["states"]),
        states=given["states"],
        spacing=Spacing(given["spacing"]) if given["spacing"] else None,
        switch_every=given["switch_every"],
    )
    weights = [weight for weight in pages.by_site(course.plan).tolist() if weight > 0]
    found = {
        "population": given["population"],
        "policy": given["policy"],
        "pages": pages.pages,
        "freshness": course.freshness,
        "age": course.age,
        "useful_ratio": course.useful_ratio,
        "updates_per_slot": course.updates,
        "polls_per_slot": course.polls,
        "total_weight": float(course.plan.sum()),
        "bins": len(best_fit_decreasing(weights, pages.capacity)),
        "seconds": round(time.perf_counter() - started, 4),
    }
    if as_json:
        console.print_json(found)
        return 0
    print_table(
        [
            ("fresh at the end of a slot", f"{course.freshness:.4f} of {pages.pages:,} pages"),
            ("age of a copy", f"{course.age:.3g} slots"),
            ("polls that found a change", f"{course.useful_ratio:.4f} of {course.polls:,.1f} a slot"),
            ("updates found in a slot", f"{course.updates:.4f} of all pages"),
            ("total weight", f"{found['total_weight']:,.2f} polls a slot"),
            (f"nodes of {pages.capacity} polls a slot", f"{found['bins']}"),
        ]
    )
    console.message(f"{given['slots']:,} slots in {console.format_duration(found['seconds'])}")
    return 0


def _budget(word: str, pages: PageSet, states: int) -> float | None:
    """Polls a slot; None is the natural budget."""
    from fieldmouse_lab.refresh import contest

    if word == "natural":
        return None
    if word == "tight":
        return contest.tight_budget(pages, states)
    try:
        polls = float(word)
    except ValueError:
        polls = 0.0
    if not 0 < polls < float("inf"):
        raise UsageError(
            f"`--budget {word}` is no number of polls a slot", "give natural, tight, or a number such as 500"
        )
    return polls
