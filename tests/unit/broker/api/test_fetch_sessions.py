"""Fetch sessions: what a fetch reads, what its response names, and which session makes room."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from quorumd.broker.api.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    FIRST_EPOCH,
    MAX_EPOCH,
    NO_SESSION,
    FetchSessions,
    PartitionKey,
    SessionFetch,
)
from quorumd.errors import ErrorCode

A, B, C = (("orders", number) for number in range(3))


@dataclass
class Result:
    high_watermark: int = 10
    records: bytes | None = b""
    error_code: int = 0
    log_start_offset: int = 0
    preferred_read_replica: int = -1
    has_diverged: bool = False


class Broker:
    """Sessions, and the fetches of one client at a time."""

    def __init__(self, slots: int = 10, max_partitions: int = 100) -> None:
        self.sessions: FetchSessions[str] = FetchSessions(Random(1).randrange, slots, max_partitions)
        self.now_ms = 0.0

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: dict[PartitionKey, str] | None = None,
        *forgotten: PartitionKey,
        is_follower: bool = False,
        uses_topic_ids: bool = True,
    ) -> SessionFetch[str] | ErrorCode:
        return self.sessions.begin(
            session_id,
            epoch,
            requested or {},
            forgotten,
            self.now_ms,
            is_follower=is_follower,
            uses_topic_ids=uses_topic_ids,
        )

    def fetch(
        self, session_id: int, epoch: int, requested: dict[PartitionKey, str], *forgotten: PartitionKey
    ) -> SessionFetch[str]:
        fetch = self.begin(session_id, epoch, requested, *forgotten)
        assert isinstance(fetch, SessionFetch)
        return fetch

    def open(self, *keys: PartitionKey, is_follower: bool = False) -> int:
        """Fetch these partitions with a new session, and return its id."""
        fetch = self.begin(NO_SESSION, FIRST_EPOCH, dict.fromkeys(keys, "first"), is_follower=is_follower)
        assert isinstance(fetch, SessionFetch)
        error, session_id, sent = fetch.respond({key: Result() for key in keys}, self.now_ms)
        assert error is ErrorCode.NONE
        assert list(sent) == list(keys)
        return session_id


def test_incremental_fetch_reads_all_partitions_and_sends_only_news() -> None:
    broker = Broker()
    session_id = broker.open(A, B, C)
    fetch = broker.fetch(session_id, 1, {B: "second"})
    assert fetch.partitions == {A: "first", B: "second", C: "first"}
    results = {A: Result(), B: Result(high_watermark=11), C: Result()}
    assert fetch.respond(results, 0.0) == (ErrorCode.NONE, session_id, {B: results[B]})
    fetch = broker.fetch(session_id, 2, {})
    assert fetch.respond(results, 0.0)[2] == {}


def test_every_kind_of_news_is_sent() -> None:
    for news in (
        Result(records=b"records"),
        Result(high_watermark=9),
        Result(log_start_offset=3),
        Result(preferred_read_replica=2),
        Result(has_diverged=True),
        Result(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    ):
        broker = Broker()
        session_id = broker.open(A, B)
        fetch = broker.fetch(session_id, 1, {})
        assert list(fetch.respond({A: news, B: Result()}, 0.0)[2]) == [A], news


def test_partition_is_sent_again_once_its_error_is_resolved() -> None:
    broker = Broker()
    session_id = broker.open(A)
    broker.fetch(session_id, 1, {}).respond({A: Result(error_code=3)}, 0.0)
    assert list(broker.fetch(session_id, 2, {}).respond({A: Result()}, 0.0)[2]) == [A]
    assert list(broker.fetch(session_id, 3, {}).respond({A: Result()}, 0.0)[2]) == []


def test_partition_with_records_goes_to_the_end() -> None:
    broker = Broker()
    session_id = broker.open(A, B, C)
    results = {A: Result(records=b"records"), B: Result(), C: Result()}
    broker.fetch(session_id, 1, {}).respond(results, 0.0)
    assert list(broker.fetch(session_id, 2, {}).partitions) == [B, C, A]


def test_forgotten_partitions_leave_and_the_last_one_ends_the_session() -> None:
    broker = Broker()
    session_id = broker.open(A, B)
    assert list(broker.fetch(session_id, 1, {C: "third"}, A).partitions) == [B, C]
    last = broker.fetch(session_id, 2, {}, B, C)
    assert last.respond({}, 0.0) == (ErrorCode.NONE, NO_SESSION, {})
    assert len(broker.sessions) == 0


def test_request_that_does_not_continue_its_session_is_refused() -> None:
    broker = Broker()
    session_id = broker.open(A)
    assert broker.begin(session_id + 1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.begin(session_id, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert broker.begin(session_id, 1, uses_topic_ids=False) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    broker.fetch(session_id, 1, {})
    assert broker.begin(session_id, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH, "a repeated request"


def test_response_that_the_fetcher_did_not_wait_for_is_refused() -> None:
    broker = Broker()
    session_id = broker.open(A)
    slow = broker.fetch(session_id, 1, {})
    broker.fetch(session_id, 2, {})
    error, _, sent = slow.respond({A: Result(high_watermark=12)}, 0.0)
    assert (error, sent) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, {})


def test_full_fetch_ends_the_session_that_it_names() -> None:
    for epoch in (FIRST_EPOCH, FINAL_EPOCH):
        broker = Broker()
        session_id = broker.open(A)
        fetch = broker.fetch(session_id, epoch, {A: "again"})
        assert len(broker.sessions) == 0
        _, new_id, sent = fetch.respond({A: Result()}, 0.0)
        assert (new_id == NO_SESSION) == (epoch == FINAL_EPOCH)
        assert list(sent) == [A]


def test_epochs_wrap_around_to_the_first_one_of_a_session() -> None:
    broker = Broker()
    session_id = broker.open(A)
    broker.sessions._sessions[session_id].epoch = MAX_EPOCH
    broker.fetch(session_id, MAX_EPOCH, {})
    broker.fetch(session_id, 1, {})


def test_unused_session_makes_room() -> None:
    broker = Broker(slots=2)
    unused, used = broker.open(A, B, C), broker.open(A)
    broker.now_ms = EVICTION_MS
    assert broker.open(B) == NO_SESSION, "both were used a short time ago"
    broker.fetch(used, 1, {})
    broker.now_ms += 1.0
    assert broker.open(B) != NO_SESSION
    assert broker.begin(unused, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.sessions.evictions == 1


def test_follower_takes_the_slot_of_the_smallest_consumer_but_not_of_a_follower() -> None:
    broker = Broker(slots=2)
    large, small = broker.open(A, B), broker.open(A)
    assert broker.open(A, B, C) == NO_SESSION, "a consumer takes no slot of a recent session"
    follower = broker.open(A, is_follower=True)
    assert follower != NO_SESSION
    assert broker.begin(small, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.open(A, is_follower=True) != NO_SESSION
    assert broker.begin(large, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.open(A, B, C, is_follower=True) == NO_SESSION


def test_larger_session_takes_the_slot_of_an_old_smaller_one() -> None:
    broker = Broker(slots=1)
    session_id = broker.open(A)
    epoch = 1
    for _ in range(3):
        broker.now_ms += EVICTION_MS / 2
        broker.fetch(session_id, epoch, {})
        epoch += 1
    assert broker.open(B) == NO_SESSION, "of the same size"
    assert broker.open(B, C) != NO_SESSION
    assert broker.sessions.partitions == 2


def test_sessions_have_a_limited_number_of_partitions() -> None:
    """Any client may request sessions for partitions that do not exist."""
    broker = Broker(max_partitions=4)
    consumers = [broker.open(A), broker.open(A, B)]
    assert broker.open(A, B, C) == NO_SESSION
    assert broker.open(A, B, C, is_follower=True) != NO_SESSION
    assert [broker.begin(each, 1) for each in consumers] == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 2
    assert broker.sessions.partitions == 3


def test_session_that_grows_beyond_the_limit_ends() -> None:
    broker = Broker(max_partitions=2)
    session_id = broker.open(A)
    broker.fetch(session_id, 1, {B: "second"})
    assert broker.begin(session_id, 2, {C: "third"}) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert broker.sessions.partitions == 0
