"""Options that name a coordinator and a crawl on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fieldmouse.api.joining import COORDINATOR_VARIABLE, DEFAULT_CRAWL
from fieldmouse.cli.options import RenamedOption

F = TypeVar("F", bound=Callable[..., Any])


def of_a_crawl(command: F) -> F:
    """Add `--coordinator` and `--crawl`, as in `fieldmouse agent`."""
    crawl = click.option(
        "--crawl",
        metavar="NAME",
        default=DEFAULT_CRAWL,
        show_default=True,
        help="Select the crawl of this name.",
    )
    return on_a_board(crawl(command))


def on_a_board(command: F) -> F:
    """Add `--coordinator`."""
    option = click.option(
        "--coordinator",
        "coordinators",
        metavar="URL",
        multiple=True,
        required=True,
        cls=RenamedOption,
        envvar=COORDINATOR_VARIABLE,
        show_envvar=True,
        help="Connect to this coordinator; repeat it if the crawl has several.",
    )
    return option(command)
