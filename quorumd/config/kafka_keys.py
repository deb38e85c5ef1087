"""Kafka's keys that are no settings of quorumd: which have no effect here, and which must not be ignored.

The names are in kafka_keys.txt beside this file; what a key stands for decides its class:

    a setting of quorumd                                   read (settings.py), never in that file
    Kafka's, and does nothing here                         accepted with a warning
    Kafka's, and a cluster is less safe when it is ignored refused, unless its value asks for nothing
    known to neither                                       a warning; refused where it resembles a key of quorumd
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_OF_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")


class KafkaKey(NamedTuple):
    """What the list says of a key; `harmless` are values with which a refused key asks for nothing."""

    is_refused: bool
    reason: str
    harmless: tuple[str, ...] = ()

    def refuses(self, value: str) -> bool:
        """Whether a node must not start with this value."""
        return self.is_refused and value.strip() not in ("", *self.harmless)


def find(key: str) -> KafkaKey | None:
    """The entry of a key, also of one for a single listener (`listener.name.external.ssl.keystore.location`, with a
    mechanism before `sasl.` where there is one); None if Kafka does not know it."""
    of_listener = _OF_LISTENER.fullmatch(key)
    if of_listener is None:
        return _find_plain(key)
    words = of_listener[1].split(".")
    suffixes = (".".join(words[start:]) for start in range(len(words)))
    return next((entry for entry in map(_find_plain, suffixes) if entry is not None), None)


def _find_plain(key: str) -> KafkaKey | None:
    keys, prefixes = entries()
    if key in keys:
        return keys[key]
    return next((entry for prefix, entry in prefixes.items() if key.startswith(prefix)), None)


@cache
def entries() -> tuple[dict[str, KafkaKey], dict[str, KafkaKey]]:
    """All entries of the list: of keys, and of what keys begin with."""
    keys: dict[str, KafkaKey] = {}
    prefixes: dict[str, KafkaKey] = {}
    section = KafkaKey(False, "")
    for line in Path(__file__).with_name("kafka_keys.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(("=", "!")):
            section = KafkaKey(line.startswith("!"), line[1:].strip())
        elif line and not line.startswith("#"):
            name, *harmless = line.split()
            entry = section._replace(harmless=tuple(harmless))
            if name.endswith(".*"):
                prefixes[name[:-1]] = entry
            else:
                keys[name] = entry
    return keys, prefixes
