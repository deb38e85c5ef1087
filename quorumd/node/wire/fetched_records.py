"""Decodes the records that a follower fetches."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.node.wire.voter_records import VoterRecord, voter_records
from quorumd.protocol.batch_scan import Gapless, validate
from quorumd.raft.messages import FetchedBatch


class FetchedRecords(NamedTuple):
    """The batches in a response, as the engine has them, and the voter records in them."""

    batches: tuple[FetchedBatch, ...]
    voter_records: tuple[VoterRecord, ...]


def decode_fetched(data: bytes) -> FetchedRecords:
    """Validate and decode whole batches. Raises MalformedMessage."""
    batches: list[FetchedBatch] = []
    found: list[VoterRecord] = []
    for header in validate(data, Gapless()):
        voters = list(voter_records(data, header)) if header.is_control else []
        found += voters
        assignments = tuple((voter.offset, voter.assignment) for voter in voters)
        batches.append(
            FetchedBatch(header.base_offset, header.end_offset, header.epoch, header.position, assignments)
        )
    return FetchedRecords(tuple(batches), tuple(found))
