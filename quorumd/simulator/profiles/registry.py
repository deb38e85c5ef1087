"""All profiles by name. One of them mixes everything; the others concentrate on one subject each."""

from __future__ import annotations

from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import LARGE_REQUEST
from quorumd.simulator.brokers.options import OPERATOR_NAMES
from quorumd.simulator.options import INTERRUPTED_TRANSFER, RARE_BROKER_FAULT_NAMES
from quorumd.simulator.profiles.brokers import BROKER_PROFILES, NODE_PROFILES
from quorumd.simulator.profiles.clients import CLIENT_PROFILES
from quorumd.simulator.profiles.profile import Profile
from quorumd.simulator.profiles.quorum import QUORUM_PROFILES
from quorumd.simulator.profiles.unmixed import UNMIXED_PROFILES

DEFAULT = "swarm"
VOTER_CHANGES = frozenset({"voter change", "raft voter change", "removal without majority"})
"""Names of faults after which the voters are not the initial ones."""

ALL = Profile(
    "swarm",
    "Random mixes of all faults and features.",
    rare_faults=(
        "refused request",
        "damaged file",
        "disturbed transfer",
        "repeated format",
        "failed read",
        "failed directory sync",
        "stalled event loop",
        "hostile peer",
        "copied snapshots",
        "newer record version",
    ),
    rare_share=0.25,
    separate_faults=(
        "failed write",
        "interrupted installation",
        "unchanged voter",
        "faulty leader",
        "invalid peer request",
        INTERRUPTED_TRANSFER,
        "failed segment",
        "damaged indexes",
    ),
    separate_share=0.3,
    brokers=(0,) * 36 + (3, 4, 3, 4),
    access=0.25,
    logins=0.15,
    mistakes=0.25,
    impolite=0.25,
    unread=0.06,
    peer_logins=0.15,
    reads=0.3,
    consumers=0.25,
    copies=0.15,
    max_partitions_per_step=(10_000, 10_000, 1, 3),
    max_partitions_per_part=(MAX_PARTITIONS_PER_PART, MAX_PARTITIONS_PER_PART, 1, 3),
    large_request_bytes=(LARGE_REQUEST, LARGE_REQUEST, 0, 100),
    stock_voters=(0,) * 14 + (1, 2),
    registrations=0.2,
    auto_join=0.2,
    idle_interval_ms=(100.0, 2000.0),
    idle_share=0.25,
    balance_ms=(100.0, 3000.0),
    cordon_ms=(300.0, 3000.0),
    balance_share=0.6,
    log_directories=(1, 2, 3),
    operators=OPERATOR_NAMES[:-1],
    partition_mistakes=0.5,
    rare_broker_faults=RARE_BROKER_FAULT_NAMES,
    operator_share=0.5,
    elr_switches_ms=(300.0, 3000.0),
    alter_partition_versions=(0, 1, 2, 3),
    ineligible_proposals=0.5,
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        ALL,
        *QUORUM_PROFILES,
        *BROKER_PROFILES,
        *NODE_PROFILES,
        *CLIENT_PROFILES,
        *UNMIXED_PROFILES,
    )
}
