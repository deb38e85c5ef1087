"""Records count while the broker leads their partition."""

from __future__ import annotations

from typing import Any

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Replica, Transition
from quorumd.node.broker.counters import BrokerCounters
from tests.support.broker.memory_log import MemoryLog
from tests.support.broker.replicas import PARTITION, Context


def hosted(end_offset: int) -> HostedPartition:
    """A partition whose log ends at an offset."""
    replica: Any = Replica(PARTITION, 1, MemoryLog(start_offset=end_offset), Context())
    directory: Any = None
    return HostedPartition(PARTITION, "t", directory, replica, min_isr=1)


def test_records_are_counted_from_the_start_of_the_leadership() -> None:
    counters = BrokerCounters()
    counters.changed(hosted(10), Transition.LEADS)
    counters.appended(hosted(13))
    counters.changed(hosted(13), Transition.STILL_LEADS)
    counters.appended(hosted(14))
    assert counters.messages_in == 4


def test_records_of_a_former_leadership_do_not_count() -> None:
    counters = BrokerCounters()
    counters.changed(hosted(10), Transition.LEADS)
    other = next(each for each in Transition if each not in (Transition.LEADS, Transition.STILL_LEADS))
    counters.changed(hosted(10), other)
    counters.changed(hosted(50), Transition.LEADS)
    counters.appended(hosted(51))
    assert counters.messages_in == 1
