"""The words by which a crawl on a board is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fieldmouse.api.joining import COORDINATOR_VARIABLE, DEFAULT_CRAWL
from fieldmouse.cli.options import RenamedOption

F = TypeVar("F", bound=Callable[..., Any])


def of_a_crawl(command: F) -> F:
    """`--coordinator` and `--crawl`, as `fieldmouse agent` has them."""
    crawl = click.option(
        "--crawl",
        metavar="NAME",
        default=DEFAULT_CRAWL,
        show_default=True,
        help="Which crawl of it.",
    )
    return on_a_board(crawl(command))


def on_a_board(command: F) -> F:
    """`--coordinator` alone."""
    board = click.option(
        "--coordinator", "boards", metavar="URL", multiple=True, required=True, cls=RenamedOption,
        envvar=COORDINATOR_VARIABLE, show_envvar=True,
        help="The server where the agents meet; if there are several, each of them.",
    )  # fmt: skip
    return board(command)
