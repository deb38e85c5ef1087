"""`bootstrap.checkpoint`: the bytes of `kafka-storage format`, written and read."""

from __future__ import annotations

from base64 import b64decode

import pytest

from quorumd.controller.bootstrap_metadata import feature_records, initial_feature_levels
from quorumd.controller.scram_credentials import parse_credential
from quorumd.errors import CorruptLog
from quorumd.log.bootstrap_file import encode_bootstrap, load_bootstrap, load_bootstrap_snapshot
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.metadata_record import encode_record
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log import stock_directory

ARGUMENTS = (
    'SCRAM-SHA-256=[name=alice,password=alice-secret,salt="N3E="]',
    'SCRAM-SHA-512=[name=bob,iterations=8192,salt="N3E=",saltedpassword="YCE="]',
)
STOCK = b64decode(
    "AAAAAAAAAAAAAABHAAAAAAIzi+nnACAAAAAAAAABogXGRlUAAAGiBcZGVf//////////////////AAAAASoAAAAIAAAAAxYAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAQAAAbEAAAAAAuzGeTMAAAAAAAUAAAGiBcZJDgAAAaIFxkkO//////////////////8AAAAGOgAAAAEu"
    "AQwAEW1ldGFkYXRhLnZlcnNpb24AGwAAWgAAAgFOAQwAIWVsaWdpYmxlLmxlYWRlci5yZXBsaWNhcy52ZXJzaW9uAAEAADQAAAQB"
    "KAEMAA5ncm91cC52ZXJzaW9uAAEAAEAAAAYBNAEMABR0cmFuc2FjdGlvbi52ZXJzaW9uAAIAALYBAAAIAagBAQsABmFsaWNlAQM3"
    "cSH9KJi64EpnbFBgFUZN6fqNJ++ERkJ/Da38eyJZFW2VNiFKSMgBwN6+dIJagrK3SjYQFyhkhKfFJarzVwssPRDTnQAAEAAAALIC"
    "AAAKAaQCAQsABGJvYgIDN3FBcXajSfkesuEdmelXMIE1FvL2RXPfwlrmGKyq6ai/1my6GnQBkALTiDfj8bysiAAVsysjd15xpW2s"
    "EiappLOxvUFMYXwO3e5axlhfL79QG3zpW0cNa/AfG1ScJjwYobVAbqa4X0jTx9ncxDRy6nBFna5joor0g1pkeLg7EcIPBgwHAAAg"
    "AAAAAAAAAAAAAAcAAAA/AAAAAALE94WsACAAAAAAAAABogXGSU4AAAGiBcZJTv//////////////////AAAAARoAAAAIAAAABAYA"
    "AAAA"
)
"""With --release-version 4.1 and --add-scram for each of these, as Kafka 4.3.1 writes it."""


def frames() -> list[bytes]:
    credentials = [parse_credential(text, lambda: b"") for text in ARGUMENTS]
    records = [*feature_records(initial_feature_levels("4.1", {})), *credentials]
    return [encode_record(record, 0) for record in records]


def test_bytes_equal_those_of_the_stock_tool() -> None:
    """Each batch of the stock tool has its own timestamp."""
    pieces = [
        (header.position, header.size, encode_bootstrap(frames(), header.max_timestamp_ms))
        for header in headers(STOCK)
    ]
    assert len(pieces) == 3
    assert b"".join(data[start : start + size] for start, size, data in pieces) == STOCK


def test_reads_file_of_the_stock_tool(memory_disk: SimulatedDisk) -> None:
    memory_disk.make_directory("data")
    assert load_bootstrap(memory_disk, "data") is None
    memory_disk.open("data/bootstrap.checkpoint", create=True).write_at(0, STOCK)
    assert load_bootstrap(memory_disk, "data") == ("data/bootstrap.checkpoint", frames(), None)


def test_reads_file_of_newer_stock_tools(memory_disk: SimulatedDisk) -> None:
    memory_disk.make_directory("data")
    assert load_bootstrap_snapshot(memory_disk, "data") is None
    stock_directory.write_checkpoint(memory_disk, "data")
    found = load_bootstrap_snapshot(memory_disk, "data")
    assert found is not None
    records = feature_records(initial_feature_levels("4.1", {}))
    assert found.frames == [encode_record(record, 0) for record in records]
    assert found.voters is not None
    voters = [(voter.voter_id, voter.voter_directory_id) for voter in found.voters.voters]
    assert voters == [(1, stock_directory.DIRECTORY_ID)]


def test_damaged_file_is_rejected_with_its_path(memory_disk: SimulatedDisk) -> None:
    memory_disk.make_directory("data")
    memory_disk.open("data/bootstrap.checkpoint", create=True).write_at(0, STOCK[:-1])
    with pytest.raises(CorruptLog, match=r"data/bootstrap\.checkpoint"):
        load_bootstrap(memory_disk, "data")
