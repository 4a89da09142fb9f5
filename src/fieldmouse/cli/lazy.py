"""Groups of commands that import a command only when it is used.

`fieldmouse --help` must not wait for numpy, so a group knows the name, the help line and the
place (`module:attribute`) of each command. Other distributions add commands by entry points of
the group `fieldmouse.commands`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import click

from fieldmouse.errors import UsageError

Commands = Mapping[str, tuple[str, str]]
"""Commands by name: where each is (`module:attribute`), and its help line."""


class LazyGroup(click.Group):
    """Group of commands, listed in sections and imported on use.

    `plugins` names a group of entry points that add commands to the last section.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Commands], plugins: str = "", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._own = {name: place for commands in sections.values() for name, (place, _) in commands.items()}
        self._plugins = plugins

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._own, *(name for name, _ in self._added())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._own:
            return _load(self._own[cmd_name])
        return next((_load(place) for name, place in self._added() if name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            path, near = ctx.command_path, difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            raise UsageError(
                f"there is no command `{args[0]}`" + (f" in `{path}`" if ctx.parent else ""),
                f"did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        added = [(name, _load(place).get_short_help_str(80)) for name, place in self._added()]
        last = list(self._sections)[-1]
        for title, commands in self._sections.items():
            rows = [(name, line) for name, (_, line) in commands.items()] + (added if title == last else [])
            with formatter.section(title):
                formatter.write_dl(rows)

    def _added(self) -> Iterator[tuple[str, str]]:
        if self._plugins:
            from importlib.metadata import entry_points  # slow to import

            for point in sorted(entry_points(group=self._plugins), key=lambda point: point.name):
                if point.name not in self._own:
                    yield point.name, point.value


def _load(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command: click.Command = getattr(import_module(module), name)
    return command
