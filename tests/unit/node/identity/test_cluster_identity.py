from __future__ import annotations

import pytest

from quorumd.ids import KafkaUuid
from quorumd.node.identity.cluster_identity import ClusterIdentity


class FixedUuidEntropy:
    def uuid(self) -> KafkaUuid:
        return KafkaUuid(bytes(15) + b"\x07")

    def randrange(self, bound: int) -> int:
        return bound - 1


def identity(cluster_id: str | None = None) -> ClusterIdentity:
    return ClusterIdentity(cluster_id, FixedUuidEntropy())


@pytest.mark.parametrize(
    ("own", "requested", "accepted"),
    [
        (None, "other", True),
        ("ours", None, True),
        ("ours", "", True),
        ("ours", "ours", True),
        ("ours", "other", False),
    ],
)
def test_hole_23_missing_cluster_id_is_accepted_and_a_different_one_is_not(
    own: str | None, requested: str | None, accepted: bool
) -> None:
    assert identity(own).accepts(requested) is accepted


def test_id_generated_by_the_first_leader_is_adopted_once_committed() -> None:
    ours = identity()
    generated = ours.id_for_new_record()
    ours.appended(2, generated)
    assert ours.cluster_id is None
    assert ours.committed(2) == (False, None)
    assert ours.committed(3) == (True, None)
    assert ours.cluster_id == generated


def test_truncated_id_is_forgotten() -> None:
    ours = identity()
    ours.appended(2, "lost")
    ours.truncated(2)
    ours.appended(5, "kept")
    assert ours.id_for_new_record() == "kept"
    assert ours.committed(9) == (True, None)
    assert ours.cluster_id == "kept"


def test_committed_id_of_another_cluster_is_reported() -> None:
    ours = identity("ours")
    ours.appended(2, "other")
    assert ours.committed(3) == (False, "other")
    assert ours.cluster_id == "ours"


@pytest.mark.parametrize(
    ("own", "requested", "named"),
    [
        (None, "other", True),
        (None, None, True),
        ("ours", "ours", True),
        ("ours", None, False),
        ("ours", "other", False),
    ],
)
def test_request_names_the_cluster_only_with_its_id(
    own: str | None, requested: str | None, named: bool
) -> None:
    assert identity(own).is_named_by(requested) is named
