"""Plain swarm mixes profiles: their faults, and the narrow ranges of each."""

from collections import Counter
from dataclasses import fields
from random import Random

from quorumd.simulator.environment.entropy import Streams
from quorumd.simulator.options import (
    PEER_LOGIN_FAULTS,
    RARE_BROKER_FAULT_NAMES,
    RARE_FAULT_NAMES,
    LongIntervals,
    SimulationOptions,
)
from quorumd.simulator.profiles.draw import (
    BROKER_NODES_SHARE,
    FIXED_VOTER_FAULTS,
    SINGLE_PROFILES,
    SINGLE_SHARE,
    draw_options,
)
from quorumd.simulator.profiles.mixes import BROKERS_SHARE, GROUPS, MIXED_SHARE, UNIONS, draw_profile, mixed
from quorumd.simulator.profiles.profile import Profile
from quorumd.simulator.profiles.registry import ALL, PROFILES, VOTER_CHANGES

SEEDS = range(1000)


def drawn() -> list[SimulationOptions]:
    return [draw_options(seed) for seed in SEEDS]


def test_plain_swarm_draws_each_rare_fault_in_one_of_a_hundred_seeds() -> None:
    counts = Counter(name for options in drawn() for name in options.faults)
    rare = {name: counts[name] for name in (*RARE_FAULT_NAMES, *RARE_BROKER_FAULT_NAMES)}
    assert min(rare.values()) >= len(SEEDS) / 100, rare


def test_plain_swarm_combines_what_profiles_separate() -> None:
    options = drawn()
    for combination in (
        [each for each in options if each.brokers.count and each.snapshot_bytes < 20_000],
        [
            each
            for each in options
            if "replaced disk" in each.faults and not VOTER_CHANGES.isdisjoint(each.faults)
        ],
        [each for each in options if len(each.brokers.operators) > 1],
        [each for each in options if each.brokers.log_directories > 1 and each.brokers.count],
        [each for each in options if "hostile peer" in each.faults and len(each.faults) > 5],
        [each for each in options if each.kept_records_at_once > 4],
    ):
        assert len(combination) >= len(SEEDS) / 100


def test_mixes_are_a_share_of_plain_swarm() -> None:
    profiles = [draw_profile(Random(seed), ALL) for seed in SEEDS]
    mixes = [profile for profile in profiles if profile is not ALL]
    assert abs(len(mixes) - MIXED_SHARE * len(SEEDS)) < len(SEEDS) / 20
    with_brokers = [profile for profile in mixes if profile.brokers != (0,)]
    assert abs(len(with_brokers) - BROKERS_SHARE * len(mixes)) < len(mixes) / 20
    assert {profile.name for profile in profiles} == {"swarm"}


def test_single_profiles_are_a_share_of_plain_swarm() -> None:
    streams = [Streams(seed).stream("share of broker nodes").random() for seed in SEEDS]
    end = BROKER_NODES_SHARE + SINGLE_SHARE
    single = [seed for seed, share in zip(SEEDS, streams, strict=True) if BROKER_NODES_SHARE <= share < end]
    assert abs(len(single) - SINGLE_SHARE * len(SEEDS)) < len(SEEDS) / 20
    for seed in single:
        options = draw_options(seed)
        assert options.profile == "swarm"
        assert any(set(options.faults) <= allowed_faults(PROFILES[name]) for name in SINGLE_PROFILES)


def allowed_faults(profile: Profile) -> set[str]:
    return {
        *profile.faults,
        *profile.broker_faults,
        *RARE_BROKER_FAULT_NAMES,
        *RARE_FAULT_NAMES,
        *PEER_LOGIN_FAULTS,
    }


def test_mix_has_all_faults_and_takes_each_group_from_one_profile() -> None:
    chosen = [PROFILES[name] for name in ("operators", "voters", "snapshots")]
    for seed in range(50):
        mix = mixed(Random(seed), ALL, chosen)
        for union in UNIONS:
            assert set(getattr(mix, union)) == {name for each in chosen for name in getattr(each, union)}
        for group in GROUPS.values():
            values = [getattr(mix, field) for field in group]
            assert values in [[getattr(each, field) for field in group] for each in (*chosen, ALL)]


def test_mix_with_brokers_has_the_load_of_a_profile_with_brokers() -> None:
    load = GROUPS["load"]
    chosen = [PROFILES["failovers"], PROFILES["large snapshots"]]
    for seed in range(20):
        mix = mixed(Random(seed), ALL, chosen)
        assert [getattr(mix, field) for field in load] == [getattr(chosen[0], field) for field in load]


def test_every_range_of_a_profile_belongs_to_one_group() -> None:
    grouped = [field for group in GROUPS.values() for field in group]
    assert sorted([*grouped, *UNIONS, "name", "description"]) == sorted(Profile.__slots__)


def test_voter_changes_exclude_faults_that_need_the_initial_voters() -> None:
    for options in drawn():
        if not VOTER_CHANGES.isdisjoint(options.faults):
            assert set(options.faults) & set(FIXED_VOTER_FAULTS) <= {"replaced disk"}
            assert options.stock_voters == 0


def test_some_seeds_scale_long_intervals_down() -> None:
    options = drawn()
    usual = LongIntervals()
    for field in fields(LongIntervals):
        scaled = [
            each for each in options if getattr(each.intervals, field.name) != getattr(usual, field.name)
        ]
        assert len(SEEDS) / 20 < len(scaled) < len(SEEDS) / 2
        assert max(getattr(each.intervals, field.name) for each in scaled) < options[0].liveness_ms / 4
