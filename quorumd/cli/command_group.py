"""The class of all groups of commands."""

from __future__ import annotations

import click


class CommandGroup(click.Group):
    """A group that lists its commands in the order in which they were added, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        unlimited = len(max((command.help or "" for command in self.commands.values()), key=len, default=""))
        rows = [(name, command.get_short_help_str(unlimited)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
