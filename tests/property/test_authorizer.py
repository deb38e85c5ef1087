"""The authorizer decides as a simple loop over all ACLs does, whatever was added, removed and undone before."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.controller.security_records import SecurityState
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.security.authorizer import Authorizer, AuthorizerSettings, Client
from quorumd.simulator.checkers.acl_index import AclIndexHasEveryAcl
from tests.support.security.index import acl_record
from tests.support.security.simple_authorizer import (
    Cluster,
    allows,
    allows_any,
    random_cluster,
    random_question,
)

QUESTIONS = 100


def remove(state: SecurityState, number: int, changes: list[UndoEntry]) -> None:
    state.apply(RemoveAccessControlEntryRecord(KafkaUuid(number.to_bytes(16, "big"))), changes)


def contents(state: SecurityState) -> tuple[object, ...]:
    index = state.acls
    entries = {
        (key, host): sorted(value)
        for key, by_host in index.entries.items()
        for host, value in by_host.items()
    }
    rights = {right: dict(patterns) for right, patterns in index.rights.items()}
    lengths = [
        {kind: each for kind, each in some.items() if each}
        for some in (index.prefix_lengths, index.range_lengths)
    ]
    return index.acls, index.counts, index.prefix_counts, index.range_counts, entries, rights, *lengths


@pytest.mark.parametrize("seed", range(100))
def test_decisions_are_those_of_the_simple_model(seed: int) -> None:
    random = Random(seed)
    first, more = random_cluster(random), random_cluster(random)
    state = SecurityState()
    for number, acl in enumerate((*first.acls, *more.acls), 1):
        state.apply(acl_record(acl, number), [])
    removed = random.sample(range(1, len(first.acls) + 1), len(first.acls))
    for number in removed:
        remove(state, number, [])
    cluster = Cluster(more.acls, more.super_users, more.allows_without_acl)
    settings = AuthorizerSettings(cluster.super_users, cluster.allows_without_acl)
    authorizer = Authorizer(settings, lambda: state.acls, lambda: True, lambda: 0.0)
    for _ in range(QUESTIONS):
        question = random_question(random, cluster)
        client = Client(question.principal, question.host, "Test")
        decided = authorizer.authorize(client, question.operation, question.kind, question.name)
        assert decided is allows(cluster, question), question
        decided = authorizer.authorize_any(client, question.operation, question.kind)
        assert decided is allows_any(cluster, question), question


@pytest.mark.parametrize("seed", range(20))
def test_undone_changes_leave_nothing(seed: int) -> None:
    random = Random(seed)
    cluster, more = random_cluster(random), random_cluster(random)
    state = SecurityState()
    for number, acl in enumerate(cluster.acls, 1):
        state.apply(acl_record(acl, number), [])
    before = contents(state)
    expected = tuple(dict(each) if isinstance(each, dict) else each for each in before)
    AclIndexHasEveryAcl().look(1, state.acls)
    changes: list[UndoEntry] = []
    for number, acl in enumerate(more.acls, len(cluster.acls)):
        state.apply(acl_record(acl, number), changes)
    for number in range(1, len(cluster.acls) + 1):
        remove(state, number, changes)
    AclIndexHasEveryAcl().look(1, state.acls)
    undo(reversed(changes))
    assert contents(state) == expected
