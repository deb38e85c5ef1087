"""Seeds draw every fault and option, in different mixes."""

from collections import Counter

import pytest

from quorumd.controller.cluster_image import ELR_VERSION
from quorumd.simulator.brokers.options import OPERATOR_NAMES
from quorumd.simulator.options import (
    BROKER_FAULT_NAMES,
    BROKER_NODE_FAULT_NAMES,
    FAULT_NAMES,
    MOVE_FAULT_NAMES,
    PEER_LOGIN_FAULTS,
    RARE_BROKER_FAULT_NAMES,
    RARE_BROKER_NODE_FAULT_NAMES,
    RARE_FAULT_NAMES,
)
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.profiles.registry import DEFAULT, PROFILES, VOTER_CHANGES
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation

SEEDS = range(400)


def test_default_draws_every_size_every_fault_and_every_workload() -> None:
    drawn = [draw_options(seed) for seed in SEEDS]
    assert {options.voters for options in drawn} == set(range(1, 8))
    assert {options.observers for options in drawn} == set(range(6))
    assert {name for options in drawn for name in options.faults} == {
        *FAULT_NAMES,
        *RARE_FAULT_NAMES,
        *BROKER_FAULT_NAMES,
        *RARE_BROKER_FAULT_NAMES,
        *BROKER_NODE_FAULT_NAMES,
        *RARE_BROKER_NODE_FAULT_NAMES,
        *MOVE_FAULT_NAMES,
        *PEER_LOGIN_FAULTS,
    }
    assert {options.brokers.count for options in drawn} == {0, 3, 4, 5, 6}
    shares = [options.workload.list_share for options in drawn]
    assert 0.0 in shares
    assert 1.0 in shares
    assert any(0.0 < share < 1.0 for share in shares)
    assert {options.workload.append_attempts for options in drawn} == {1, 2, 3, 4}


def test_default_draws_every_kind_of_controller_work() -> None:
    drawn = [draw_options(seed) for seed in SEEDS]
    for chosen in (
        [options.idle_interval_ms > 0 for options in drawn],
        [options.registers for options in drawn],
        [options.auto_join for options in drawn],
        [bool(options.features.levels) for options in drawn],
        [options.features.changes_ms > 0 for options in drawn],
        [options.features.levels.get(ELR_VERSION, 1) == 0 for options in drawn],
        [options.brokers.balance_ms > 0 for options in drawn if options.brokers.count],
        [options.brokers.cordon_ms > 0 for options in drawn if options.brokers.count],
    ):
        assert set(chosen) == {False, True}
    assert {name for options in drawn for name in options.brokers.operators} == set(OPERATOR_NAMES)
    assert {version for options in drawn for version in options.brokers.alter_partition_versions} == {
        0,
        1,
        2,
        3,
    }
    assert {options.brokers.log_directories for options in drawn if options.brokers.count} == {1, 2, 3}


def test_probabilities_are_drawn() -> None:
    drawn = [draw_options(seed) for seed in SEEDS]
    kinds = Counter(len(options.faults) for options in drawn)
    assert min(kinds) <= 2
    assert max(kinds) >= len(FAULT_NAMES) - 3
    for values in (
        [options.fault_interval_ms for options in drawn],
        [options.disk.slow_probability for options in drawn if options.disk.slow_probability],
        [options.links.slow_probability for options in drawn if options.links.slow_probability],
        [options.links.split_probability for options in drawn if options.links.split_probability],
        [weight for options in drawn for weight in options.faults.values()],
    ):
        assert len(set(values)) == len(values)
        assert max(values) > 5 * min(values)


def test_seed_draws_the_same_every_time_and_another_in_every_profile() -> None:
    for name in PROFILES:
        assert draw_options(7, name) == draw_options(7, name)
    assert len({str(draw_options(7, name)) for name in PROFILES}) == len(PROFILES)


@pytest.mark.parametrize("name", [name for name in PROFILES if name != DEFAULT])
def test_profile_draws_only_its_faults(name: str) -> None:
    profile = PROFILES[name]
    assert set(profile.faults) <= {*FAULT_NAMES, *RARE_FAULT_NAMES, *BROKER_NODE_FAULT_NAMES}
    drawn = {fault for seed in SEEDS for fault in draw_options(seed, name).faults}
    of_brokers = {*profile.broker_faults, *profile.rare_broker_faults} if any(profile.brokers) else set()
    of_logins = set(PEER_LOGIN_FAULTS if profile.peer_logins else ())
    assert drawn == {*profile.faults, *profile.rare_faults} | of_brokers | of_logins


def test_every_rare_fault_has_a_profile() -> None:
    others = [profile for name, profile in PROFILES.items() if name != DEFAULT]
    assert any(profile.peer_logins for profile in others)
    assert {name for profile in others for name in profile.faults} | set(PEER_LOGIN_FAULTS) >= set(
        RARE_FAULT_NAMES
    )


def test_faults_of_brokers_are_drawn_where_there_are_brokers() -> None:
    for seed in SEEDS:
        for name in ("brokers", "swarm", "dense"):
            options = draw_options(seed, name)
            assert options.brokers.count or not set(options.faults) & set(BROKER_FAULT_NAMES)


def test_profile_draws_every_broker_option() -> None:
    drawn = [draw_options(seed, "brokers").brokers for seed in SEEDS]
    assert {options.count for options in drawn} == {3, 4, 5}
    assert {options.raises_min_isr for options in drawn} == {False, True}
    assert 0.0 in {options.unclean_topics for options in drawn}
    assert any(options.unclean_topics for options in drawn)
    assert all(options.heartbeat_ms < options.session_timeout_ms / 2 for options in drawn)


@pytest.mark.parametrize("name", PROFILES)
def test_seed_of_every_profile_holds(name: str) -> None:
    report = Simulation(11, draw_options(11, name)).run()
    assert report.ok, str(report)
    assert report.options.profile == name


def test_report_names_the_profile_that_reproduces_it() -> None:
    def line(profile: str) -> str:
        return Report(5, draw_options(5, profile), "", 0.0, 0).reproduce

    assert line("disk") == "quorumd simulate --seed 5 --profile disk"
    assert line("swarm") == "quorumd simulate --seed 5"


@pytest.mark.parametrize(
    ("name", "replaced"), [("dense", {False}), ("disks and voters", {True}), ("swarm", {False, True})]
)
def test_replaced_disk_follows_disks_with_voter_changes(name: str, replaced: set[bool]) -> None:
    drawn = [draw_options(seed, name).faults for seed in SEEDS]
    changes = [faults for faults in drawn if not VOTER_CHANGES.isdisjoint(faults)]
    assert {"replaced disk" in faults for faults in changes} == replaced


def test_processor_time_of_transfers_is_a_share_of_the_election_timeout() -> None:
    drawn = [draw_options(seed) for seed in SEEDS]
    slow = [options for options in drawn if options.request_ms]
    assert 20 < len(slow) < 120
    for options in slow:
        assert options.slowness > 1.0
        senders = options.voters + options.observers + options.workload.clients
        assert options.request_ms * options.slowness * senders < options.election_timeout_ms / 9
