"""Which ISRs a leader proposes, and what it does with the responses."""

from __future__ import annotations

import pytest

from quorumd.broker.replication.isr_proposal import AWAITS_METADATA, FINAL, REVERTS, CommittedIsr
from quorumd.controller.partition import RECOVERING
from quorumd.errors import ErrorCode
from tests.support.broker.replicas import LAG_MS, Leader


def respond(leader: Leader, error: ErrorCode = ErrorCode.NONE, committed: CommittedIsr | None = None) -> None:
    """Respond to the last proposal."""
    proposal = leader.context.proposals[-1]
    leader.replica.handle_proposal_response(proposal, error, committed, leader.now_ms)


# Expansion


def test_caught_up_follower_is_proposed_with_the_whole_isr() -> None:
    leader = Leader()
    leader.fetch(3, 0)
    (proposal,) = leader.context.proposals
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 5)
    assert proposal.isr == ((1, 10), (2, -1), (3, 30)), "2 has not fetched yet: its epoch is not checked"
    assert leader.replica.maximal_isr == (1, 2, 3)
    assert leader.replica.isr == (1, 2)


def test_follower_joins_at_the_high_watermark() -> None:
    leader = Leader()
    leader.append(3)
    leader.fetch(2, 2)
    leader.fetch(3, 1)
    assert leader.proposed == []
    leader.fetch(3, 2)
    assert leader.proposed == [(1, 2, 3)]


def test_race_20_follower_joins_at_the_start_of_the_epoch_only() -> None:
    leader = Leader(epochs=(0,))
    assert leader.replica.high_watermark == 0
    leader.fetch(3, 0)
    assert leader.proposed == []
    leader.fetch(3, 1)
    assert leader.proposed == [(1, 2, 3)]


@pytest.mark.parametrize("cause", ["fenced or in controlled shutdown", "unregistered"])
def test_race_9_ineligible_follower_is_served_and_not_proposed(cause: str) -> None:
    leader = Leader()
    if cause == "unregistered":
        del leader.context.epochs[3]
    else:
        leader.context.ineligible.add(3)
    leader.append()
    decision = leader.fetch(3, 1, broker_epoch=30)
    assert (decision.error, leader.end_offset_of(3)) == (ErrorCode.NONE, 1)
    assert leader.proposed == []
    leader.context.ineligible.clear()
    leader.context.epochs[3] = 30
    leader.fetch(3, 1)
    assert leader.proposed == [(1, 2, 3)], "by its next fetch"


def test_race_2_proposal_names_the_incarnation_that_fetched() -> None:
    """The metadata of a newer incarnation arrives before its first fetch."""
    leader = Leader()
    leader.context.is_open = False
    leader.fetch(3, 0)
    leader.context.proposals.clear()
    leader.context.is_open = True
    leader.context.epochs[3] = 31
    leader.replica.shrink_isr(0.0)
    leader.fetch(2, 0)
    assert leader.proposed == []
    leader.fetch(3, 0, broker_epoch=31)
    assert leader.context.proposals[0].isr[-1] == (3, 31)


def test_incarnation_that_the_metadata_does_not_show_yet_is_not_proposed() -> None:
    leader = Leader()
    assert leader.fetch(3, 0, broker_epoch=31).error is ErrorCode.NONE
    assert leader.proposed == []


def test_broker_without_epochs_is_proposed_unchecked() -> None:
    leader = Leader()
    leader.fetch(3, 0, broker_epoch=-1)
    assert leader.context.proposals[0].isr[-1] == (3, -1)


def test_race_24_one_proposal_at_a_time() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    leader.replica.shrink_isr(0.0)
    assert leader.proposed == [(1, 2)]
    respond(leader, committed=CommittedIsr(1, 1, (1, 2), 6))
    leader.fetch(3, 0)
    assert leader.proposed == [(1, 2), (1, 2, 3)]
    assert leader.context.proposals[1].partition_epoch == 6


def test_proposal_that_cannot_be_sent_is_not_pending() -> None:
    leader = Leader()
    leader.context.is_open = False
    leader.fetch(3, 0)
    assert leader.replica.maximal_isr == (1, 2)
    leader.context.is_open = True
    leader.fetch(3, 0)
    assert leader.replica.maximal_isr == (1, 2, 3)


def test_proposal_is_pending_before_it_is_sent() -> None:
    leader = Leader()
    seen: list[tuple[int, ...]] = []
    leader.context.on_proposal = lambda: seen.append(leader.replica.maximal_isr)
    leader.fetch(3, 0)
    assert seen == [(1, 2, 3)]


# Shrink


def test_lagging_members_are_removed_together() -> None:
    leader = Leader(isr=(1, 2, 3, 4), replicas=(1, 2, 3, 4))
    leader.append()
    leader.fetch(2, 1)
    leader.replica.shrink_isr(LAG_MS)
    assert leader.proposed == []
    leader.replica.shrink_isr(LAG_MS + 1)
    assert leader.proposed == [(1, 2)]
    assert leader.replica.maximal_isr == (1, 2, 3, 4)


def test_member_is_not_removed_while_a_proposal_is_pending() -> None:
    leader = Leader(isr=(1, 2))
    leader.append()
    leader.now_ms = LAG_MS + 1
    leader.fetch(3, 1)
    leader.replica.shrink_isr(leader.now_ms)
    assert leader.proposed == [(1, 2, 3)]


def test_member_at_the_log_end_stays_however_long_it_is_silent() -> None:
    leader = Leader()
    leader.fetch(2, 0)
    leader.replica.shrink_isr(1_000_000.0)
    assert leader.proposed == []


def test_member_that_keeps_pace_one_fetch_behind_stays() -> None:
    """Each fetch has everything that the leader had at the fetch before."""
    leader = Leader()
    for _ in range(5):
        leader.append()
        leader.now_ms += 0.9 * LAG_MS
        leader.fetch(2, leader.log.end_offset - 1)
        leader.replica.shrink_isr(leader.now_ms)
    assert leader.proposed == []
    leader.append(2)
    leader.now_ms += 0.9 * LAG_MS
    leader.fetch(2, leader.log.end_offset - 3)
    leader.replica.shrink_isr(leader.now_ms)
    assert leader.proposed == [(1,)], "below the end at its last fetch"


def test_follower_that_never_fetched_is_given_the_lag_time_of_a_new_leader() -> None:
    leader = Leader()
    leader.append()
    leader.replica.shrink_isr(LAG_MS)
    assert leader.proposed == []
    leader.replica.shrink_isr(LAG_MS + 1)
    assert leader.proposed == [(1,)]


def test_late_times_do_not_go_back() -> None:
    leader = Leader()
    leader.now_ms = 500.0
    leader.fetch(2, 0)
    leader.now_ms = 100.0
    leader.fetch(2, 0)
    leader.append()
    leader.replica.shrink_isr(LAG_MS + 400.0)
    assert leader.proposed == []


# Responses


@pytest.mark.parametrize("error", sorted(AWAITS_METADATA))
def test_race_6_proposal_stays_pending_until_the_metadata_shows_the_state(error: ErrorCode) -> None:
    """An earlier attempt may have been accepted: nothing is acknowledged without the proposed member."""
    leader = Leader()
    leader.fetch(3, 0)
    respond(leader, error)
    leader.now_ms = 2 * LAG_MS
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.maximal_isr == (1, 2, 3)
    assert leader.replica.high_watermark == 0
    leader.apply((1, 2, 3), 6)
    assert leader.replica.leadership is not None
    assert leader.replica.leadership.proposal is None
    assert leader.replica.high_watermark == 0
    leader.fetch(3, 1)
    assert leader.replica.high_watermark == 1


@pytest.mark.parametrize("error", sorted(REVERTS))
def test_race_1_refusal_of_a_current_proposal_reverts_it(error: ErrorCode) -> None:
    leader = Leader()
    leader.fetch(3, 0)
    leader.now_ms = 2 * LAG_MS
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0
    respond(leader, error)
    assert leader.replica.maximal_isr == (1, 2)
    assert leader.replica.high_watermark == 1


def test_race_8_errors_of_the_channel_are_repeated() -> None:
    """A controller that is behind or deposed must not decide anything."""
    leader = Leader()
    leader.fetch(3, 0)
    for error in (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.REQUEST_TIMED_OUT):
        assert error not in FINAL
        with pytest.raises(AssertionError, match="is retried"):
            respond(leader, error)
    assert leader.replica.maximal_isr == (1, 2, 3)


def test_race_5_leader_takes_the_shrink_of_the_controller() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.fetch(2, 1)
    leader.now_ms = LAG_MS + 1
    leader.fetch(2, 1)
    leader.replica.shrink_isr(leader.now_ms)
    assert leader.proposed == [(1, 2)]
    respond(leader, ErrorCode.INVALID_UPDATE_VERSION)
    assert leader.replica.maximal_isr == (1, 2, 3)
    leader.apply((1, 3), 6)
    assert (leader.replica.isr, leader.replica.maximal_isr) == ((1, 3), (1, 3))
    assert leader.replica.high_watermark == 0, "3 is behind"


@pytest.mark.parametrize(
    "committed",
    [CommittedIsr(1, 2, (1, 2, 3), 6), CommittedIsr(1, 1, (1, 2, 3), 4)],
    ids=["of another leader epoch", "older than the metadata"],
)
def test_success_that_is_not_of_this_state_is_ignored(committed: CommittedIsr) -> None:
    leader = Leader()
    leader.fetch(3, 0)
    respond(leader, committed=committed)
    assert (leader.replica.isr, leader.replica.maximal_isr) == ((1, 2), (1, 2, 3))


def test_success_without_a_change_ends_the_proposal() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.append()
    leader.replica.shrink_isr(LAG_MS + 1)
    respond(leader, committed=CommittedIsr(1, 1, (1, 2, 3), 5))
    assert leader.replica.maximal_isr == (1, 2, 3)
    assert leader.replica.leadership is not None
    assert leader.replica.leadership.proposal is None


def test_response_to_an_earlier_proposal_is_ignored() -> None:
    leader = Leader()
    leader.fetch(3, 0)
    first = leader.context.proposals[0]
    leader.apply((1, 2), 6)
    leader.fetch(3, 0)
    leader.replica.handle_proposal_response(first, ErrorCode.INELIGIBLE_REPLICA, None, 0.0)
    assert leader.replica.maximal_isr == (1, 2, 3)
    leader.apply((2, 3), 7, leader_epoch=2, leader=2)
    respond(leader, ErrorCode.INELIGIBLE_REPLICA)
    assert leader.replica.isr == (2, 3)


def test_race_12_metadata_of_a_known_partition_epoch_leaves_the_proposal_pending() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(2, 0)
    respond(leader, committed=CommittedIsr(1, 1, (1, 2), 6))
    leader.fetch(3, 0)
    for partition_epoch in (6, 5):
        leader.apply((1, 2), partition_epoch)
        assert leader.replica.maximal_isr == (1, 2, 3)
    leader.now_ms = 2 * LAG_MS
    leader.append()
    leader.fetch(2, 1)
    assert leader.replica.high_watermark == 0


def test_metadata_of_a_known_partition_epoch_completes_the_response() -> None:
    """A reassignment that only adds replicas is complete without a new leader epoch."""
    leader = Leader(isr=(1, 2), min_isr=3)
    leader.apply((1, 2), 6, adding=(3,))
    leader.fetch(3, 0)
    respond(leader, committed=CommittedIsr(1, 1, (1, 2, 3), 7))
    assert leader.replica.metadata is not None
    assert leader.replica.metadata.adding == (3,)
    leader.apply((1, 2, 3), 7)
    assert leader.replica.metadata.adding == ()
    assert leader.end_offset_of(3) == 0


def test_race_13_leader_that_was_reassigned_away_acknowledges_nothing() -> None:
    leader = Leader(isr=(1, 2, 3), replicas=(4, 1, 2, 3))
    leader.fetch(4, 0)
    leader.produce()
    respond(leader, ErrorCode.NEW_LEADER_ELECTED)
    leader.fetch(2, 1)
    leader.fetch(3, 1)
    assert (leader.replica.high_watermark, leader.outcomes) == (0, []), "4 has left this epoch"
    leader.apply((4,), 6, leader_epoch=2, leader=4, replicas=(4,))
    assert leader.outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_race_25_withdrawn_proposal_does_not_hold_the_high_watermark() -> None:
    """The controller discards late copies of it: see `alter_partition_order`."""
    leader = Leader()
    leader.fetch(3, 0)
    leader.context.ineligible.add(3)
    respond(leader, ErrorCode.INELIGIBLE_REPLICA)
    leader.append(10)
    leader.fetch(2, 10)
    assert leader.replica.high_watermark == 10


def test_race_7_replaced_leader_that_is_cut_off_acknowledges_nothing() -> None:
    leader = Leader(isr=(1, 2, 3))
    leader.produce(timeout_ms=10 * LAG_MS)
    assert leader.fetch(3, 0, leader_epoch=2).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    leader.replica.shrink_isr(LAG_MS + 1)
    assert leader.proposed == [(1,)]
    assert leader.replica.isr == (1, 2, 3), "only the controller shrinks it"
    leader.replica.expire_produces(10 * LAG_MS)
    assert (leader.replica.high_watermark, leader.outcomes) == (0, [ErrorCode.REQUEST_TIMED_OUT])


# Recovery


def test_uncleanly_elected_leader_reports_its_recovery() -> None:
    leader = Leader(isr=(1,))
    leader.replica.report_recovery()
    assert leader.proposed == []
    leader.apply((1,), 6, leader_epoch=2, recovery=RECOVERING)
    leader.replica.report_recovery()
    leader.replica.report_recovery()
    assert leader.proposed == [(1,)]
    respond(leader, committed=CommittedIsr(1, 2, (1,), 7))
    leader.replica.report_recovery()
    assert leader.proposed == [(1,)]
