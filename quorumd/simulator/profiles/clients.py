"""Profiles for one kind of client each."""

from __future__ import annotations

from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.simulator.profiles.profile import Profile

CLIENT_PROFILES = (
    Profile(
        "access",
        "An administrator changes ACLs, quotas and credentials; clients have only the rights that it grants.",
        faults=("kill", "power loss", "isolated leader", "partition", "paused process", "shutdown"),
        fault_interval_ms=(500.0, 3000.0),
        voters=(1, 3, 3, 5),
        short_share=0.0,
        access=1.0,
        access_ms=(5.0, 100.0),
    ),
    Profile(
        "mistakes",
        "An administrator makes invalid requests of every kind, each of which must be refused.",
        faults=("kill", "isolated leader", "partition", "shutdown"),
        fault_interval_ms=(500.0, 3000.0),
        voters=(1, 3, 3),
        short_share=0.0,
        access=0.3,
        mistakes=1.0,
        mistakes_ms=(3.0, 30.0),
        max_partitions_per_part=(1, 3, MAX_PARTITIONS_PER_PART),
    ),
    Profile(
        "logins",
        "Clients log in with passwords and delegation tokens that change and expire.",
        faults=("kill", "power loss", "isolated leader", "partition", "paused process", "shutdown"),
        fault_interval_ms=(500.0, 3000.0),
        voters=(1, 3, 3, 5),
        short_share=0.0,
        access=0.5,
        stock_voters=(0, 0, 1),
        logins=1.0,
        logins_ms=(5.0, 100.0),
        registrations=0.5,
    ),
)
