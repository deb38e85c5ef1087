from __future__ import annotations

import pytest

from quorumd.ids import KafkaUuid
from quorumd.node.identity.cluster_identity import ClusterIdentity


class OneUuid:
    def uuid(self) -> KafkaUuid:
        return KafkaUuid(bytes(15) + b"\x07")

    def randrange(self, bound: int) -> int:
        return bound - 1


def identity(cluster_id: str | None = None) -> ClusterIdentity:
    return ClusterIdentity(cluster_id, OneUuid())


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
def test_hole_23_nobodys_id_passes_and_anothers_does_not(
    own: str | None, requested: str | None, accepted: bool
) -> None:
    assert identity(own).accepts(requested) is accepted


def test_the_first_leader_makes_an_id_that_counts_once_committed() -> None:
    ours = identity()
    made = ours.id_for_new_record()
    ours.appended(2, made)
    assert ours.cluster_id is None
    assert ours.committed(2) == (False, None)
    assert ours.committed(3) == (True, None)
    assert ours.cluster_id == made


def test_an_id_that_was_truncated_is_forgotten() -> None:
    ours = identity()
    ours.appended(2, "lost")
    ours.truncated(2)
    ours.appended(5, "kept")
    assert ours.id_for_new_record() == "kept"
    assert ours.committed(9) == (True, None)
    assert ours.cluster_id == "kept"


def test_a_log_of_another_cluster_is_told() -> None:
    ours = identity("ours")
    ours.appended(2, "other")
    assert ours.committed(3) == (False, "other")
    assert ours.cluster_id == "ours"
