"""Commands whose modules are imported when they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click


class LazyCommands(Mapping[str, click.Command]):
    """The commands of a group by name, in the order of `places`, which maps each name to `module:attribute`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> click.Command:
        module, _, attribute = self.places[name].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)
