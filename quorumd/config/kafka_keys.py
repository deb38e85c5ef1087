"""Kafka's keys that are not settings of quorumd: ignored, or rejected because ignoring them is unsafe.

They are listed in kafka_keys.txt, next to this file. A properties file may have

    a setting of quorumd              read (settings.py); never in the list
    a key without effect here         accepted with a warning
    a key that is unsafe to ignore    rejected, unless its value is harmless
    an unknown key                    ignored with a warning; rejected if it resembles a key of quorumd
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LISTENER_KEY = re.compile(r"listener\.name\.[^.]+\.(.+)")


class KafkaKey(NamedTuple):
    """An entry of the list. A rejected key is accepted if its value is empty or one of `harmless`."""

    is_refused: bool
    reason: str
    harmless: tuple[str, ...] = ()

    def refuses(self, value: str) -> bool:
        """Whether a node must not start with this value."""
        return self.is_refused and value.strip() not in ("", *self.harmless)


def find(key: str) -> KafkaKey | None:
    """Return the entry of a key, None if Kafka does not have it.

    A key may have the prefix of one listener, and of one mechanism, as
    `listener.name.external.plain.sasl.jaas.config`.
    """
    listener_key = _LISTENER_KEY.fullmatch(key)
    if listener_key is None:
        return _find_plain(key)
    words = listener_key[1].split(".")
    suffixes = (".".join(words[start:]) for start in range(len(words)))
    return next((entry for entry in map(_find_plain, suffixes) if entry is not None), None)


def _find_plain(key: str) -> KafkaKey | None:
    keys, prefixes = entries()
    if key in keys:
        return keys[key]
    return next((entry for prefix, entry in prefixes.items() if key.startswith(prefix)), None)


@cache
def entries() -> tuple[dict[str, KafkaKey], dict[str, KafkaKey]]:
    """Return all entries, by key and by prefix."""
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
