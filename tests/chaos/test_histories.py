"""Histories of clients are read completely, and the contradictions in them are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.history import Entry, Histories


def write(key: str, value: str, called: float, returned: float | None, outcome: str = "ok") -> Entry:
    kind = "append" if key.startswith("list-") else "write"
    return Entry(1, kind, key, value, called, returned, outcome)


def read(key: str, value: str | None, called: float, returned: float | None, outcome: str = "ok") -> Entry:
    return Entry(2, "read", key, value, called, returned, outcome)


def history_of(*entries: Entry) -> Histories:
    histories = Histories([])
    for entry in entries:
        histories.add(entry)
    return histories


def test_growing_files_are_read_and_incomplete_lines_wait(tmp_path: Path) -> None:
    file = tmp_path / "history"
    histories = Histories([file])
    histories.poll()
    first, second = write("r", "a", 1.5, 2.5), read("r", None, 3, None, "no response")
    file.write_text(first.line() + second.line()[:10])
    histories.poll()
    assert histories.entries == [first]
    file.write_text(first.line() + second.line())
    histories.poll()
    histories.poll()
    assert histories.entries == [first, second]


def test_longest_gap_is_between_acknowledged_writes_and_the_ends() -> None:
    histories = history_of(
        write("r", "b", 350, 400),
        write("r", "a", 50, 100),
        read("r", "a", 200, 210),
        write("r", "c", 300, None, "no response"),
        write("r", "d", 900, 950),
    )
    assert histories.longest_gap_ms(0, 500) == 300
    assert histories.longest_gap_ms(90, 1000) == 550
    assert histories.longest_gap_ms(960, 2000) == 1040
    assert histories.acknowledged_between(0, 500) == [100, 400]


def test_progress_counts_only_later_writes() -> None:
    histories = history_of(write("r", "a", 90, 200), read("r", "a", 150, 160), write("r", "b", 150, 300))
    assert histories.first_write_begun_after(100) == 300
    assert histories.first_write_begun_after(150) is None


RIGHT = [
    write("r", "a", 0, 1),
    write("r", "b", 2, None, "no response"),
    read("r", "a", 3, 4),
    read("r", "b", 5, 6),
    read("s", None, 5, 6),
    write("list-1", "x", 0, 1),
    write("list-1", "y", 0, None, "error"),
    read("list-1", "x", 2, 3),
    read("list-1", "x,y", 4, 5),
    read("list-2", None, 4, 5),
]


def test_linearizable_history_has_no_contradiction() -> None:
    assert history_of(*RIGHT).contradictions() == []


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (read("r", "a", 7, 8), "register r is not linearizable"),
        (read("r", None, 7, 8), "register r is not linearizable"),
        (read("list-1", "x", 7, 8), "list list-1 was not only appended to"),
        (read("list-1", "y,x", 7, 8), "list list-1 was not only appended to"),
        (read("list-1", None, 7, 8), "list list-1 was not only appended to"),
    ],
)
def test_contradiction_names_its_key(wrong: Entry, named: str) -> None:
    (contradiction,) = history_of(*RIGHT, wrong).contradictions()
    assert named in contradiction.splitlines()[0]
    assert len(contradiction.splitlines()) > 1


def test_write_that_was_not_sent_must_never_be_seen() -> None:
    (contradiction,) = history_of(
        write("r", "a", 0, 1), write("r", "b", 2, None, "not sent"), read("r", "b", 3, 4)
    ).contradictions()
    assert "register r" in contradiction
