"""The checker of the index of ACLs finds every part that differs from the ACLs."""

from collections.abc import Callable

import pytest

from quorumd.controller.security_records import SecurityState
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.security.acls import AclEntry, AclIndex
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.acl_index import AclIndexHasEveryAcl

TOPIC, PREFIXED, READ, ALLOW = 2, 4, 3, 3
AMY = "User:amy"
PAY = (TOPIC, PREFIXED, "pay")
ENTRY = AclEntry("*", READ, ALLOW)


def index_of(*names: str) -> AclIndex:
    """An index of ACLs of prefixes."""
    state = SecurityState()
    for number, name in enumerate(names):
        record = AccessControlEntryRecord(
            KafkaUuid(bytes([number + 1] * 16)), TOPIC, name, PREFIXED, AMY, "*", READ, ALLOW
        )
        state.apply(record, [])
    return state.acls


def test_index_with_every_acl_passes() -> None:
    index = index_of("pay", "pay", "log", "billing")
    AclIndexHasEveryAcl().look(1, index)
    assert index.counts[PAY] == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda index: index.acls.popitem(),
        lambda index: index.entries.update({(PAY, "User:ben"): {"*": (ENTRY,)}}),
        lambda index: index.entries[PAY, AMY].update({"*": ()}),
        lambda index: index.entries[PAY, AMY].update({"10.0.0.1": (ENTRY,)}),
        lambda index: index.rights.clear(),
        lambda index: index.rights[TOPIC, AMY, "*", READ, ALLOW].update({PAY: 2}),
        lambda index: index.range_lengths.update({4: (8,)}),
        lambda index: index.range_counts.update({(4, 8): 1}),
        lambda index: index.counts.update({PAY: 7}),
        lambda index: index.counts.pop(PAY),
        lambda index: index.prefix_lengths.clear(),
        lambda index: index.prefix_lengths.update({TOPIC: (4, 3)}),
        lambda index: index.prefix_counts.update({(TOPIC, 3): 2}),
    ],
)
def test_index_that_differs_from_the_acls_is_found(spoil: Callable[[AclIndex], object]) -> None:
    index = index_of("pay")
    spoil(index)
    with pytest.raises(InvariantViolation, match="node 1"):
        AclIndexHasEveryAcl().look(1, index)
