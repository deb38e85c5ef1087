"""Profiles that plain swarm does not mix with others."""

from __future__ import annotations

from quorumd.simulator.profiles.profile import Profile

UNMIXED_PROFILES = (
    Profile(
        "restored copies",
        "Operators recover copies of the files of running nodes, most of them damaged; leaders are isolated.",
        faults=("isolated leader", "kill", "replaced disk"),
        fault_share=(0.5, 1.0),
        fault_interval_ms=(500.0, 2000.0),
        voters=(1, 2, 3, 3),
        observers=(0, 1),
        safety_ms=(3e3, 6e3),
        short_share=0.0,
        election_timeout_ms=(100.0, 400.0),
        segment_bytes=(600.0, 4e3),
        snapshot_bytes=(600.0, 6e3),
        maintenance_interval_ms=(50.0, 500.0),
        kept_records=0.6,
        copies=1.0,
        copies_ms=(50.0, 200.0),
    ),
    Profile(
        "interrupted installations",
        "Power fails, or a write, while a fetched snapshot is installed; voters are updated without a change.",
        faults=(
            "interrupted installation",
            "failed write",
            "unchanged voter",
            "replaced disk",
            "isolated leader",
        ),
        fault_share=(0.6, 1.0),
        fault_interval_ms=(150.0, 1000.0),
        voters=(2, 3, 3, 5),
        observers=(1, 1, 2),
        safety_ms=(5e3, 10e3),
        short_share=0.0,
        election_timeout_ms=(100.0, 400.0),
        segment_bytes=(600.0, 4e3),
        snapshot_bytes=(300.0, 6e3),
        maintenance_interval_ms=(50.0, 500.0),
        chunk_bytes=(100.0, 1e4),
        kept_records=0.6,
    ),
)
