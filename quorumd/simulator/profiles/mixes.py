"""Mixes of profiles, with the faults of all of them and each group of ranges from one of them.

Plain swarm draws most options within wide ranges, so that it rarely reaches the situations for which a profile was
made: frequent voter changes on disks that are replaced, small snapshots in a cluster with brokers, several operators
at once. A mix keeps the narrow ranges of profiles and combines their faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

from quorumd.simulator.profiles.brokers import BROKER_PROFILES
from quorumd.simulator.profiles.profile import Profile
from quorumd.simulator.profiles.quorum import QUORUM_PROFILES

MIXED_SHARE = 0.5
"""Share of the seeds of plain swarm that draw from a mix."""
BROKERS_SHARE = 0.25
"""Share of mixes with brokers, which take longer to simulate."""
COUNTS = (1, 2, 2, 2, 3)
"""Number of profiles of a mix."""
UNIONS = ("faults", "broker_faults", "rare_broker_faults", "operators")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "machines": ("voters", "observers"),
    "stock voters": ("stock_voters",),
    "duration": ("safety_ms", "short_share"),
    "faults": ("fault_share", "fault_interval_ms"),
    "rare faults": ("rare_faults", "rare_share"),
    "separate faults": ("separate_faults", "separate_share"),
    "clocks": ("clock_drift",),
    "files": ("segment_bytes", "snapshot_bytes", "maintenance_interval_ms", "chunk_bytes"),
    # From one profile, because a mix of the extremes would leave no processor time.
    "load": (
        "clients",
        "think_ms",
        "election_timeout_ms",
        "disk_ms",
        "kept_records",
        "kept_records_ms",
        "kept_records_at_once",
        "record_ms",
        "transfers",
        "transfer_load",
        "slowness",
    ),
    "configs": ("configs", "configs_ms"),
    "access": ("access", "access_ms"),
    "logins": ("logins", "logins_ms"),
    "peer logins": ("peer_logins", "peer_session_ms"),
    "mistakes": ("mistakes", "mistakes_ms"),
    "impolite": ("impolite", "impolite_ms"),
    "unread": ("unread", "unread_ms"),
    "reads": ("reads", "reads_ms"),
    "consumers": ("consumers", "consumer_ms"),
    "copies": ("copies", "copies_ms"),
    "credentials": ("credentials",),
    "features": ("features", "feature_changes", "feature_changes_ms", "old_brokers"),
    "registrations": ("registrations", "auto_join"),
    "disks": ("disks_with_voter_changes",),
    "brokers": ("brokers", "broker_nodes", "broker_session_ms", "controller_patience"),
    "administrators": ("admin_ms", "only_topics"),
    "steps": ("max_partitions_per_step", "max_partitions_per_part", "large_request_bytes"),
    "racks": ("racks",),
    "long intervals": ("long_intervals", "long_interval_ms"),
    "idle": ("idle_interval_ms", "idle_share"),
    "balance": ("balance_ms", "balance_share"),
    "cordons": ("cordon_ms",),
    "directories": ("log_directories", "moves_ms", "moves_share"),
    "operators": ("operator_share", "operator_ms", "elr_switches_ms"),
    "partition mistakes": ("partition_mistakes", "partition_mistakes_ms"),
    "invalid ISR changes": ("alter_partition_versions", "ineligible_proposals"),
}
"""Ranges that a mix takes from the same profile."""
USUAL: Mapping[str, Any] = {field.name: field.default for field in fields(Profile)}


def draw_profile(random: Random, base: Profile) -> Profile:
    """Draw the profile of a seed of plain swarm: `base`, or a mix with its name."""
    if random.random() >= MIXED_SHARE:
        return base
    count, with_brokers = random.choice(COUNTS), random.random() < BROKERS_SHARE
    quorum = [profile for profile in QUORUM_PROFILES if profile.faults]
    brokers = list(BROKER_PROFILES)
    if not with_brokers:
        return mixed(random, base, random.sample(quorum, count))
    first = random.choice(brokers)
    others = [profile for profile in (*quorum, *brokers) if profile is not first]
    return mixed(random, base, [first, *random.sample(others, count - 1)])


def mixed(random: Random, base: Profile, chosen: Sequence[Profile]) -> Profile:
    """Mix profiles. A range that none of them narrows is taken from `base`.

    With brokers, the load is taken from a profile with brokers, whose sessions survive it.
    """
    has_brokers = any(profile.brokers != (0,) for profile in chosen)
    changes: dict[str, Any] = {}
    for name, group in GROUPS.items():
        owners = [profile for profile in chosen if _narrows(profile, group)]
        if name == "load" and has_brokers:
            owners = [profile for profile in owners if profile.brokers != (0,)]
        if owners:
            owner = random.choice(owners)
            changes |= {field: getattr(owner, field) for field in group}
    if not has_brokers:
        changes["brokers"] = (0,)
    # Cordons are left to plain ranges: administrators of other profiles do not expect refusals because of them.
    changes["cordon_ms"] = None
    for union in UNIONS:
        changes[union] = _union(getattr(profile, union) for profile in chosen)
    return replace(base, **changes)


def _narrows(profile: Profile, group: Sequence[str]) -> bool:
    return any(getattr(profile, field) != USUAL[field] for field in group)


def _union(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names once, in the order in which they first appear."""
    return tuple(dict.fromkeys(name for each in names for name in each))
