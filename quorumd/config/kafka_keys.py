"""Kafka's keys that are not settings of quorumd: ignored, or rejected because ignoring them is unsafe.

The names are in kafka_keys.txt, next to this file. The class of a key depends on its meaning:

    a setting of quorumd                                   read (settings.py), never in that file
    Kafka's, without effect here                           accepted with a warning
    Kafka's, and unsafe to ignore                          rejected, unless the value is harmless
    unknown to both                                        a warning; rejected if it resembles a key of quorumd
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_OF_LISTENER = re.compile(r"listener\.name\.[^.]+\.(.+)")


class KafkaKey(NamedTuple):
    """An entry of the list; a rejected key is accepted with one of the `harmless` values."""

    is_refused: bool
    reason: str
    harmless: tuple[str, ...] = ()

    def refuses(self, value: str) -> bool:
        """Return True if a node must not start with this value."""
        return self.is_refused and value.strip() not in ("", *self.harmless)


def find(key: str) -> KafkaKey | None:
    """Return the entry of a key, also of a key for a single listener
    (`listener.name.external.ssl.keystore.location`, with a mechanism before `sasl.` if there is one); None if
    Kafka does not know it."""
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
    """Return all entries: by key, and by prefix of keys."""
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
