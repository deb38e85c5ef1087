"""Checkers of consumer groups report violations."""

from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import Topic
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.checkers.histories import (
    OFFSETS_TOPIC,
    AssignedTopicsAreSubscribed,
    FormerMembersCommitNothing,
    GroupOffsetsNeverGoBack,
    PartitionsHaveOneOwner,
)
from quorumd.simulator.brokers.cluster_view import ClusterView, OwnerCommit
from tests.support.simulator.broker_views import NAME, WHERE, breaks, row, view_with

OFFSETS = PartitionId(KafkaUuid(bytes(15) + b"\x08"), 0)


def group_view() -> ClusterView:
    view = view_with(row())
    view.image.topics[OFFSETS.topic_id] = Topic(OFFSETS_TOPIC, OFFSETS.topic_id)
    view.image.topics[OFFSETS.topic_id].partitions[0] = row()
    view.image.topic_ids[OFFSETS_TOPIC] = OFFSETS.topic_id
    return view


def committed(owner: str, since_ms: float, sent_ms: float, received_ms: float) -> OwnerCommit:
    return OwnerCommit("group", WHERE, 7, owner, since_ms, sent_ms, received_ms)


BY_B = committed("b", 20.0, 30.0, 40.0)


@pytest.mark.parametrize(
    ("later", "is_violated"),
    [
        pytest.param(committed("a", 10.0, 50.0, 60.0), True, id="owned it before the commit of b"),
        pytest.param(committed("a", 45.0, 50.0, 60.0), False, id="got it again after the commit of b"),
        pytest.param(committed("a", 10.0, 35.0, 60.0), False, id="sent before the response to b"),
        pytest.param(committed("a", 35.0, 50.0, 60.0), False, id="got it before the response to b"),
        pytest.param(committed("b", 20.0, 50.0, 60.0), False, id="the same owner"),
        pytest.param(
            committed("a", 10.0, 50.0, 60.0)._replace(group="other"), False, id="an owner of another group"
        ),
        pytest.param(
            committed("a", 10.0, 50.0, 60.0)._replace(where=PartitionId(WHERE.topic_id, 1)), False,
            id="an owner of another partition",
        ),
    ],
)  # fmt: skip
def test_partitions_have_one_owner(later: OwnerCommit, is_violated: bool) -> None:
    checker, view = PartitionsHaveOneOwner(), group_view()
    checker.offset_committed(view, BY_B)
    assert breaks(checker.offset_committed, view, later) is is_violated


def test_groups_that_may_have_lost_records_are_exempt() -> None:
    one_owner, view = PartitionsHaveOneOwner(), group_view()
    one_owner.offset_committed(view, BY_B)
    view.history(OFFSETS).break_guarantee("records were lost")
    assert not breaks(one_owner.offset_committed, view, committed("a", 10.0, 50.0, 60.0))
    assert not breaks(GroupOffsetsNeverGoBack().offset_reported, view, "group", WHERE, 3, 4)
    assert not breaks(FormerMembersCommitNothing().late_commit, view, "group", NAME, 0, ErrorCode.NONE)


def test_offsets_of_a_group_never_go_back() -> None:
    checker, view = GroupOffsetsNeverGoBack(), group_view()
    for offset, is_violated in ((3, True), (4, False)):
        assert breaks(checker.offset_reported, view, "group", WHERE, offset, 4) is is_violated


def test_commits_of_earlier_generations_are_refused() -> None:
    checker, view = FormerMembersCommitNothing(), group_view()
    for error in (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION):
        assert breaks(checker.late_commit, view, "group", NAME, 0, error) is (error is ErrorCode.NONE)


def test_members_get_only_topics_to_which_they_subscribe() -> None:
    checker, view = AssignedTopicsAreSubscribed(), group_view()
    for subscribed in ((NAME,), ("other",)):
        assert breaks(checker.assigned, view, "group", subscribed, [WHERE]) is (NAME not in subscribed)
