"""`fieldmouse meadow serve`: a synthetic web on loopback whose contents are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from fieldmouse.cli import options
from fieldmouse.config import values
from fieldmouse.errors import UsageError
from fieldmouse.testing.meadow.options import MeadowOptions

#: Help text of every option of the meadow.
OPTION_HELP = {
    "hosts": "Number of hosts, each on a separate address.",
    "pages": "Pages with status 200 that may be crawled, in all.",
    "gamma": "Host i gets a share of the pages proportional to i^-gamma.",
    "seed": "The number from which everything follows.",
    "port": "Port to listen on; 0 lets the system choose.",
    "seeds": "Seed URLs to print; each reaches everything.",
    "truth": "Write every reachable URL, its status and whether it is allowed.",
    "arrivals": "Log every request as it arrives.",
    "changes": "Log every change of a page as it happens.",
    "processes": "Server processes that share the port.",
    "listen": "The network that hosts have addresses of: a part of loopback, or a private one.",
    "named": "Hosts have DNS names (use --resolve) instead of addresses.",
    "hosts_per_address": "Hosts behind one address; more than 1 implies --named.",
    "page_kb": "Mean size of a page's HTML, in KiB.",
    "links": "Mean number of links on a page.",
    "duplicates": "Share of pages with the same body as another.",
    "noindex": "Share of pages that ask not to be indexed.",
    "compression": "Hosts differ in what they offer: gzip, br, zstd or nothing.",
    "changing": "Share of pages that ever change.",
    "change_every": "Typical time between two changes of such a page.",
    "change_sigma": "Spread (sigma) of log-normal rates about that as median; without: 1, about the mean.",
    "rewriting": "A change rewrites a paragraph, not only the number of the revision.",
    "noise": "Share of pages with a counter, a date or a token that differs at every fetch.",
    "appearing": "Share of changing pages that link to a new page when they have changed.",
    "vanishing": "Share of leaf pages that vanish, half of them for a while.",
    "moving": "Share of leaf pages that move to another path (301).",
    "staying": "Mean time until pages vanish, come back or move.",
    "robots": "Share of hosts with a robots.txt.",
    "crawl_delay_share": "Share of those with a Crawl-delay.",
    "crawl_delay": "What their Crawl-delay is.",
    "sitemaps": "Share of hosts with robots.txt that name a sitemap.",
    "sitemap_only": "Share of such a host's pages that only the sitemap names.",
    "sitemap_lies": "Share of those hosts whose lastmod is always today, or never moves.",
    "date_lies": "Share of all hosts whose Last-Modified is always now, or never moves.",
    "private": "Share of pages with a link that robots.txt excludes.",
    "nofollow": "Share of pages with a link not to be followed.",
    "redirects": "Share of pages with a link that redirects.",
    "not_found": "Share of pages with a dead link.",
    "server_error": "Share of pages that answer 500 at first, then 200.",
    "broken": "Share of pages with a link that always answers 500.",
    "busy": "Share of hosts that answer 429 at first.",
    "busy_seconds": "What their Retry-After says, in seconds.",
    "traps": "Share of hosts with an endless calendar and session ids.",
    "open_traps": "Let robots.txt no longer exclude the traps: an infinite web.",
    "latency": "Mean time until an answer begins, such as 20ms.",
    "latency_spread": "How much hosts differ in latency (sigma of a lognormal).",
    "places": "Places that hosts and visitors are in; a visitor in that of its address's last number.",
    "near": "With several places: time that an answer takes within one.",
    "far": "With several places: time that an answer takes from one to another.",
    "slow": "Share of hosts that drip their bodies.",
    "slow_seconds": "How long such a body takes.",
    "stalling": "Share of hosts where some pages never get an answer.",
}

#: Fields without an option, for programs that start a meadow.
HIDDEN_OPTIONS = {"follow_parent", "began", "stands_at"}

DURATION_OPTIONS = {"change_every", "staying", "crawl_delay", "latency", "near", "far", "slow_seconds"}


def _seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    try:
        return values.seconds(value)
    except ValueError:
        raise click.BadParameter(f'"{value}" is no duration; write it as 20ms, 10s or 2h') from None


def meadow_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add an option for every field of `MeadowOptions`, with its default."""
    for field in reversed(msgspec.structs.fields(MeadowOptions)):
        if field.name in HIDDEN_OPTIONS:
            continue
        flag, text = field.name.replace("_", "-"), OPTION_HELP[field.name]
        if field.type is bool:
            option = click.option(f"--{flag}/--no-{flag}", default=field.default, show_default=True, help=text)
        elif field.name in DURATION_OPTIONS:
            usual = values.write_seconds(field.default)
            option = click.option(
                f"--{flag}", callback=_seconds, default=usual, show_default=True, help=text, metavar="T"
            )
        elif field.type in (int, float, float | None):
            kind = int if field.type is int else float
            option = click.option(
                f"--{flag}", type=kind, default=field.default, show_default=True, help=text, metavar="N"
            )
        elif field.type is str:
            option = click.option(f"--{flag}", default=field.default, show_default=True, help=text, metavar="NETWORK")
        else:
            option = click.option(f"--{flag}", type=click.Path(path_type=Path), metavar="FILE", help=text)
        command = option(command)
    return command


@click.group()
def command() -> None:
    """Serve a synthetic web on loopback, for demos, tests and benchmarks.

    It is generated from one number: the same seed gives the same hosts, pages, links,
    redirects and errors. It can write a list of its URLs and a log of all requests,
    so that a crawl can be checked from the server's side.
    """


@command.command(
    epilog="""\b
Examples:
  fieldmouse meadow serve --hosts 100 --pages 2000 --port 8000
  fieldmouse meadow serve --listen 127.20.0.0/16 --places 4 --near 5ms --far 80ms
  fieldmouse meadow serve --truth truth.jsonl --arrivals arrivals.jsonl --latency 20ms
  fieldmouse meadow serve --changing 1 --change-every 1h --change-sigma 2 --changes changes.jsonl"""
)
@meadow_options
@options.json_option
def serve(as_json: bool, **given: Any) -> int:
    """Serve a synthetic web until SIGTERM or Ctrl-C.

    When it is ready, it prints one JSON line with the seed URLs:
    {"seeds": ["http://127.0.0.1:8000/", ...], ...}. Crawl it with
    `fieldmouse crawl DIR --seed URL --allow-private --delay 0s`.
    """
    for name in ("truth", "arrivals", "changes"):
        if given[name] is not None and not given[name].absolute().parent.is_dir():
            raise UsageError(f"there is no directory for `{given[name]}`", f"make it first, or change `--{name}`")
    by_default = click.get_current_context().get_parameter_source("rewriting") is ParameterSource.DEFAULT
    if given["changes"] is not None and by_default:
        given["rewriting"] = True  # a crawl would treat a changed revision number alone as noise
    meadow_options = MeadowOptions(**given)

    from fieldmouse.testing.meadow.serve import serve as serve_meadow

    return serve_meadow(meadow_options)
