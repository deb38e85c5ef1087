"""Values of the options of `quorumd pipeline plan make`."""

from __future__ import annotations

from collections.abc import Callable

import click

from quorumd.errors import ConfigError


def racked_brokers(text: str) -> dict[int, str | None]:
    """Parse `21:rackC,22` to racks by broker. A click parameter type."""
    found: dict[int, str | None] = {}
    for part in text.split(","):
        broker, colon, rack = part.strip().partition(":")
        if not is_broker_id(broker) or (colon and not rack):
            raise click.BadParameter(f"{part!r} is not BROKER or BROKER:RACK, such as 21:rackC")
        if int(broker) in found:
            raise click.BadParameter(f"broker {broker} is given twice")
        found[int(broker)] = rack or None
    return found


def pair_of(what: str) -> Callable[[str], tuple[str, str]]:
    """Return a click parameter type that parses `A=B`."""

    def read(text: str) -> tuple[str, str]:
        left, equals, right = text.strip().rpartition("=")
        if not equals or not left or not right:
            raise click.BadParameter(f"{text!r} is not {what}")
        return left, right

    return read


def factor(text: str) -> tuple[str, int]:
    """Parse `3` to ("", 3) and `orders=3` to ("orders", 3). A click parameter type."""
    topic, _, number = text.strip().rpartition("=")
    if not (number.isascii() and number.isdecimal()) or not 0 < int(number) < 2**15:
        raise click.BadParameter(f"{text!r} is not N or TOPIC=N with N of 1 or more")
    return topic, int(number)


def is_broker_id(text: str) -> bool:
    """Whether the text is a broker id."""
    return text.isascii() and text.isdecimal() and int(text) < 2**31


def broker_pairs(pairs: tuple[tuple[str, str], ...], option: str) -> dict[int, int]:
    """Parse pairs of broker ids. Raises ConfigError."""
    found: dict[int, int] = {}
    for old, new in pairs:
        if not is_broker_id(old) or not is_broker_id(new):
            raise ConfigError(f"{option} {old}={new}: expected broker ids, such as 7=21")
        if int(old) in found:
            raise ConfigError(f"{option}: broker {old} is given twice")
        found[int(old)] = int(new)
    return found


def racks_by_broker(pairs: tuple[tuple[str, str], ...]) -> dict[int, str]:
    """Parse broker ids with racks. Raises ConfigError."""
    found: dict[int, str] = {}
    for broker, rack in pairs:
        if not is_broker_id(broker):
            raise ConfigError(f"--rack {broker}={rack}: expected a broker id, such as 7=rackA")
        found[int(broker)] = rack
    return found
