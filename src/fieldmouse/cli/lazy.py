"""Command group that imports a command only when it is used.

`fieldmouse --help` must not wait for numpy. So a group holds only the name and the help line of each
command, and derives the module: `crawl` is in `fieldmouse.cli.crawl`, and with the shelf `lab`, `lab run`
is in `fieldmouse.cli.lab.run`. Each such module has a `command`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click

from fieldmouse.errors import UsageError


class LazyGroup(click.Group):
    """Group of commands: `verbs` maps names to help lines, `shelf` names the sub-package of their modules."""

    def __init__(self, *args: Any, verbs: Mapping[str, str], shelf: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._verbs = verbs
        self._package = f"fieldmouse.cli.{shelf}" if shelf else "fieldmouse.cli"

    def module_of(self, verb: str) -> str:
        return f"{self._package}.{verb}"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._verbs:
            return None
        command: click.Command = importlib.import_module(self.module_of(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self._verbs:
            path, near = ctx.command_path, difflib.get_close_matches(args[0], self._verbs, n=1)
            raise UsageError(
                f"there is no command `{args[0]}`" + (f" in `{path}`" if ctx.parent else ""),
                f"did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._verbs.items()))
