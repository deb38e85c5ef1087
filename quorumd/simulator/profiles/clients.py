"""Profiles for one kind of client each."""

from __future__ import annotations

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
)
