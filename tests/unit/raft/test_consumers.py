"""Consumers of the metadata log wait for commits, and learn where the log begins."""

from __future__ import annotations

from quorumd.ids import NO_NODE, ReplicaKey
from quorumd.raft.events import RequestReceived
from tests.support.raft.single_engine import EngineHarness

CONSUMER = ReplicaKey(NO_NODE)


def test_consumer_waits_through_commits_below_its_offset() -> None:
    bench = EngineHarness((1, 1, 3)).to_leader(committed=False)
    end = bench.log.end_offset
    bench.step(RequestReceived("consumer", bench.fetch_of(2, replica=CONSUMER)))
    bench.flush()
    effects = bench.step(RequestReceived("voter", bench.fetch_of(2)))
    assert bench.engine.high_watermark == end
    assert bench.response_to("consumer", effects) is None
    bench.propose()
    bench.propose()
    bench.flush()
    effects = bench.step(RequestReceived("voter", bench.fetch_of(2)))
    response = bench.response_to("consumer", effects)
    assert (response.read_start_offset, response.high_watermark) == (end, end + 2)


def test_response_to_a_consumer_has_the_start_of_the_log() -> None:
    bench = EngineHarness((1, 1, 3)).to_leader()
    bench.log.batches = bench.log.batches[1:]
    bench.log.start_offset = 1
    response = bench.deliver(bench.fetch_of(2, offset=1, replica=CONSUMER, last_epoch=-1))
    assert response.log_start_offset == 1
