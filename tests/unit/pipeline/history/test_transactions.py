"""Transactions of the metadata log (KIP-868) in a history, wherever micro-batches end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorumd.pipeline.history.tables import Manifest, read_manifest
from quorumd.pipeline.history.transactions import settle
from quorumd.pipeline.history.writer import HistoryWriter
from quorumd.pipeline.tables.schemas import HISTORY_TABLES
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from tests.support.history.content import by, content
from tests.support.history.logs import history
from tests.support.history.reference import Logged, NaiveHistory
from tests.support.history.rows import plain_states
from tests.support.history.writing import add, write

KEY = "topic_id", "partition", "from_offset"


def marker(kind: Any) -> Logged:
    return Logged(0, 0, 0, kind())


def log_with_transactions(seed: int) -> tuple[list[Logged], list[Logged]]:
    """A log with a completed and an aborted transaction, and its effective records."""
    log, _ = history(seed, 150)
    # Aborted records may have any content: here, records of another history.
    never_were = history(seed, 190)[0][150:]
    before, within, behind = log[:60], log[60:100], log[100:]
    parts = [before, [marker(BeginTransactionRecord)], within, [marker(EndTransactionRecord)], behind[:20]]
    parts += [[marker(BeginTransactionRecord)], never_were, [marker(AbortTransactionRecord)], behind[20:]]
    whole, counting = [], []
    for part in parts:
        for logged in part:
            placed = Logged(len(whole), 1, len(whole) * 1000, logged.message)
            whole.append(placed)
            if part is not never_were:
                counting.append(placed)
    return whole, counting


@pytest.mark.parametrize("seed", range(8))
def test_aborted_records_are_dropped(tmp_path: Path, seed: int) -> None:
    log, counting = log_with_transactions(seed)
    naive = NaiveHistory()
    naive.apply(counting)
    write(tmp_path / "whole", log)
    whole = content(tmp_path / "whole")
    lots = Random(seed)
    writer = HistoryWriter(tmp_path / "cut", Manifest())
    start = 0
    while start < len(log):
        end = start + lots.randint(1, 40)
        add(writer, log[start:end])
        start = end
    cut = content(tmp_path / "cut")
    # An aborted topic id may be created again later: these are records of one history.
    for event in cut["events"] + whole["events"]:
        event.pop("topic")
    assert cut == whole
    assert by(plain_states_of(whole["partition_states"]), *KEY) == by(naive.closed, *KEY)
    assert by(plain_states_of(whole["partition_current"]), *KEY) == by([*naive.open.values()], *KEY)
    assert len(whole["events"]) == len(log), "events show everything"


def plain_states_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    import pyarrow as pa

    from quorumd.pipeline.tables.schemas import PARTITION_STATES

    return plain_states(pa.Table.from_pylist(rows, schema=PARTITION_STATES.arrow()))


def test_history_ends_before_open_transaction(tmp_path: Path) -> None:
    log, _ = log_with_transactions(1)
    write(tmp_path, log[:50])
    write(tmp_path, log[50:80])
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.end == 50
    write(tmp_path, log[50:])
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.end == len(log)


def test_obsolete_files_are_removed_across_transaction(tmp_path: Path) -> None:
    log, _ = log_with_transactions(2)
    writer = HistoryWriter(tmp_path, Manifest())
    for start, end in pairwise([0, 20, 50, 80, 90, len(log)]):
        add(writer, log[start:end])
    named = {path for table in HISTORY_TABLES for path in writer.manifest.paths(table)} | set(
        writer.manifest.obsolete
    )
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet")} == named


def test_records_without_markers_are_kept() -> None:
    rows = [{"control": False, "type": 2, "offset": 1}, {"control": True, "type": 2, "offset": 2}]
    assert settle(rows) == (rows, [], None)


def test_control_records_in_aborted_transaction_are_kept() -> None:
    kinds = [(False, 23), (True, 2), (False, 2), (False, 25)]
    rows = [{"control": control, "type": kind, "offset": n} for n, (control, kind) in enumerate(kinds)]
    assert settle(rows) == ([rows[1]], [(0, 3)], None)
