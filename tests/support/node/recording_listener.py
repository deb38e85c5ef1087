"""A part of a node that records how it is notified."""

from __future__ import annotations


class RecordingListener:
    """Appends its name, and the offset or node that it is notified of, to `seen`."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    def _record(self, *arguments: int) -> None:
        self._seen.append(" ".join([self._name, *map(str, arguments)]))

    committed = changed = leadership_changed = on_flush_completed = announce_to = save_if_sealed = _record
