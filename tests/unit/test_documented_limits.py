"""The bounds that the page about security names are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.broker.api.fetch import MAX_FETCHED
from quorumd.broker.api.fetch_sessions import MAX_SESSION_PARTITIONS
from quorumd.broker.api.transactions import MAX_PARTITIONS_ADDED
from quorumd.broker.coordinator.classic_rebalance import MAX_PENDING
from quorumd.broker.coordinator.groups import GROUPS_PER_CHECK
from quorumd.broker.coordinator.large_members import (
    LARGE_MEMBER_BYTES,
    MAX_LARGE_BYTES,
    MAX_MEMBER_BYTES,
    MAX_MEMBERS,
)
from quorumd.broker.coordinator.shards import EXPIRED_PER_SLICE
from quorumd.broker.coordinator.transactions import CHANGED_AT_ONCE
from quorumd.broker.log.compaction import MAX_KEYS as MAX_COMPACTED_KEYS
from quorumd.broker.log.producer_state import MAX_PRODUCERS
from quorumd.broker.log.records import MAX_DECOMPRESSED_BYTES, MAX_RECORDS
from quorumd.broker.log.validation import MAX_BYTES_WITH_KEYS, MAX_RECORDS_WITH_KEYS
from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.controller.delegation_tokens import MAX_RENEWERS
from quorumd.controller.features import MAX_UPDATES
from quorumd.log_limit import INTERVAL_MS
from quorumd.node.api.configs import MAX_FORWARDED_WITH_OWN
from quorumd.node.broker.large_requests import MAX_OF_MEMBER
from quorumd.node.peers.discovery import MAX_AHEAD_MS, MAX_UNVERIFIED, MAX_UNVERIFIED_PER_VOTER
from quorumd.node.sessions.authentication import MAX_REASONS as MAX_FAILURE_REASONS
from quorumd.node.sessions.fair_shares import ITERATION_MS
from quorumd.node.sessions.slice_scheduler import TASKS_AT_ONCE
from quorumd.node.settings import MAX_HELD_BYTES, MAX_PARTITIONS_PER_PART
from quorumd.node.wire.quorum_messages import MAX_NAMED
from quorumd.raft.newer_epochs import MAX_EPOCH_STEP
from quorumd.runtime.connection_quotas import MAX_RESERVED_FOR_PEERS
from quorumd.runtime.descriptors import RESERVED_DESCRIPTORS
from quorumd.runtime.disconnects import CLOSED_PER_ITERATION
from quorumd.runtime.disk_operations import LATE_S, LATE_SWITCH_S
from quorumd.runtime.http_endpoint import MAX_CLIENTS, MAX_REQUEST_BYTES
from quorumd.runtime.listener import ACCEPTED_PER_ITERATION
from quorumd.runtime.network import DISCONNECT_CHECK_S
from quorumd.runtime.tls import MAX_HANDSHAKES, MAX_REASONS, MAX_UNREAD_BYTES
from quorumd.runtime.tls_listeners import WARNING_DAYS
from quorumd.runtime.tls_records import MAX_WAITING_BYTES, RECORDS_AT_ONCE, RECORDS_PER_ITERATION
from quorumd.security.principals import MAX_NAME_BYTES, MAX_NAME_PARTS
from quorumd.security.sasl.jwt_validator import MAX_KEYS, MAX_TOKEN_LENGTH
from quorumd.security.sasl.oauth_bearer import MAX_PAIRS
from quorumd.security.sasl.scram import MAX_ATTRIBUTES, MAX_ITERATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs/security.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())
KIB, MIB = 1024, 1024 * 1024
NUMERALS = {4: "four", 8: "eight"}


@pytest.mark.parametrize(
    "sentence",
    [
        f"A log remembers {MAX_PRODUCERS:,} producers without open transactions",
        f"no request raises the epoch by more than {MAX_EPOCH_STEP:,}",
        f"limited to one per kind in {INTERVAL_MS / 1000:.0f} s",
        f"a bounded number of requests (at most {ITERATION_MS:.0f} ms), received bytes, accepted connections "
        f"({ACCEPTED_PER_ITERATION}), connections that clients end ({CLOSED_PER_ITERATION})",
        f"in parts of {MAX_PARTITIONS_PER_PART} changes",
        f"A resource may have {MAX_CONFIGS:,} configs in a request",
        f"A request may name {MAX_CONFIGS:,} configs of a resource",
        f"only if the request names the broker itself, with at most {MAX_FORWARDED_WITH_OWN} resources",
        f"all partitions or none, and refuses more than {MAX_PARTITIONS_ADDED:,}; so does Fetch",
        f"all partitions or none, and refuses more than {MAX_FETCHED:,}; so does Fetch",
        f"LeaveGroup and ConsumerGroupHeartbeat refuse more than {MAX_OF_MEMBER:,} topics",
        f"refuse more than {MAX_UPDATES} updates or topics and partitions",
        f"refuse more than {MAX_NAMED} updates or topics and partitions",
        f"may have {MAX_MEMBER_BYTES // MIB} MiB of protocols, a group {MAX_MEMBERS:,} members, and members with "
        f"more than {LARGE_MEMBER_BYTES // KIB} KiB may take {MAX_LARGE_BYTES // MIB} MiB in all",
        f"a partition of `__consumer_offsets` keeps the last {MAX_PENDING:,}",
        f"Such a batch may have {MAX_RECORDS_WITH_KEYS:,} records and {MAX_BYTES_WITH_KEYS // MIB} MiB",
        f"batches with more than {MAX_RECORDS:,} records or {MAX_DECOMPRESSED_BYTES // MIB} MiB when decompressed",
        f"It reads at most {MAX_COMPACTED_KEYS:,} keys",
        f"at most {GROUPS_PER_CHECK * EXPIRED_PER_SLICE} at a time",
        f"at most {CHANGED_AT_ONCE * EXPIRED_PER_SLICE} at a time",
        f"All fetch sessions together may have {MAX_SESSION_PARTITIONS:,} partitions",
        f"A delegation token has at most {MAX_RENEWERS} renewers",
        f"with at most {MAX_FAILURE_REASONS} reasons",
        f"with at most {MAX_REASONS} reasons",
        f"unread responses may take {MAX_HELD_BYTES // MIB} MiB in all",
        f"At most {MAX_HANDSHAKES} handshakes may be pending",
        f"OAUTHBEARER tokens are limited to {MAX_TOKEN_LENGTH // KIB} KiB",
        f"their messages to {MAX_PAIRS} pairs",
        f"SCRAM messages to {MAX_ATTRIBUTES} attributes",
        f"Clients now reject more than {MAX_ITERATIONS:,} iterations",
        f"Identity providers may have {MAX_KEYS:,} keys",
        f"certificate may have {MAX_NAME_PARTS} parts and {MAX_NAME_BYTES:,} bytes",
        f"decrypts at most {RECORDS_AT_ONCE} records of a connection and {RECORDS_PER_ITERATION:,} of all",
        f"{MAX_WAITING_BYTES // MIB} MiB of undecrypted records may wait",
        f"So is one for which {MAX_UNREAD_BYTES // KIB} KiB of messages of TLS itself wait",
        f"{MAX_UNVERIFIED} are verified at once, and {NUMERALS[MAX_UNVERIFIED_PER_VOTER]} more per voter",
        f"{NUMERALS[TASKS_AT_ONCE].capitalize()} large requests and responses take turns",
        f"leave {RESERVED_DESCRIPTORS} descriptors free",
        f"a tenth of `max.connections` (at most {MAX_RESERVED_FOR_PEERS})",
        f"serves {MAX_CLIENTS} clients; a further one replaces the oldest, and a request of more than "
        f"{MAX_REQUEST_BYTES // KIB} KiB is not read",
        f"are closed within {DISCONNECT_CHECK_S} s",
        f"It is {LATE_SWITCH_S * 1e6:.0f} µs now while no flush was completed for {LATE_S * 1e3:.0f} ms",
        f"A certificate that expires within {WARNING_DAYS} days",
    ],
)
def test_bound_is_documented(sentence: str) -> None:
    assert sentence in TEXT


def test_start_times_may_be_an_hour_ahead() -> None:
    assert (MAX_AHEAD_MS, "more than an hour ahead of the node's clock" in TEXT) == (3600 * 1000, True)
