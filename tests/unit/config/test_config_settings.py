"""Settings: the settings of a Node, and contradicting settings."""

import os
from typing import Any

import pytest
from pydantic import ValidationError

from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.config import SettingDocumentation, Settings, documentation
from quorumd.config.settings import BROKER_ONLY_FIELDS, keys_of
from quorumd.config.values import STANDARD_AUTHORIZER
from quorumd.controller.broker import BrokerEndpoint
from quorumd.controller.config_table import BROKER_CONFIGS, TOPIC_CONFIGS
from quorumd.controller.controller import ControllerSettings
from quorumd.ids import Endpoint
from quorumd.log import LogSettings
from quorumd.node.settings import NodeSettings
from quorumd.raft.settings import RaftSettings

BOTH = {
    "process_roles": "broker,controller",
    "listeners": "PLAINTEXT://h:1,CONTROLLER://h:2",
    "controller_listener_names": "CONTROLLER",
}
INSIDE = {"listener_security_protocol_map": "INSIDE:PLAINTEXT", "inter_broker_listener_name": "INSIDE"}
BROKER = {"process_roles": "broker", "controller_listener_names": "CONTROLLER", "quorum_voters": "2@h:2"}


def make(**texts: Any) -> Settings:
    base = {
        "node_id": 1,
        "log_directories": "/data",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "quorum_voters": "1",
    }
    return Settings.model_validate(base | texts)


def test_defaults_match_kafka_and_packages() -> None:
    assert make().node_settings() == NodeSettings(
        node_id=1,
        data_directory="/data",
        listen=Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        advertised=Endpoint("PLAINTEXT", "127.0.0.1", 9092),
        bootstrap_voters=(1,),
        raft=RaftSettings(),
        log=LogSettings(),
        registers=True,
    )
    raft = make().node_settings().raft
    assert (raft.fetch_timeout_ms, raft.election_timeout_ms, raft.election_backoff_max_ms) == (
        2000,
        1000,
        1000,
    )
    assert (raft.retry_backoff_ms, raft.retry_backoff_max_ms) == (20, 1000)


def expected_engine_settings() -> tuple[RaftSettings, LogSettings]:
    raft = RaftSettings(
        fetch_timeout_ms=3000,
        election_timeout_ms=1100,
        election_backoff_max_ms=1200,
        retry_backoff_ms=14,
        retry_backoff_max_ms=1500,
        fetch_max_wait_ms=500,
        fetch_max_bytes=5 << 20,
        snapshot_max_bytes=64 << 10,
    )
    log = LogSettings(
        segment_bytes=1 << 20,
        segment_ms=3_600_000,
        allocate_bytes=1 << 20,
        reserve_bytes=1 << 20,
        snapshot_bytes=2 << 20,
        snapshot_ms=1_800_000,
        retention_bytes=-1,
        retention_ms=86_400_000,
    )
    return raft, log


def test_every_setting_reaches_the_node() -> None:
    node = make(
        listeners="CONTROLLER://0.0.0.0:0",
        advertised_listeners="CONTROLLER://node-1.example:19092",
        quorum_voters="3@c:3,1,2@b:2",
        bootstrap_servers="a:1,b:2",
        fetch_timeout_ms="3s",
        election_timeout_ms="1100",
        election_backoff_max_ms="1200",
        request_timeout_ms="1300",
        retry_backoff_ms="14",
        retry_backoff_max_ms="1500",
        segment_bytes="1MiB",
        segment_ms="1h",
        reserve_bytes="1m",
        snapshot_bytes="2MiB",
        snapshot_ms="30m",
        retention_bytes="-1",
        retention_ms="1d",
        snapshot_max_bytes="64KiB",
        max_request_bytes="10MiB",
        max_connections="11",
        max_connections_per_host="12",
        connections_max_idle_ms="1m",
        failed_authentication_delay_ms="0",
    ).node_settings()
    raft, log = expected_engine_settings()
    assert node == NodeSettings(
        node_id=1,
        data_directory="/data",
        listen=Endpoint("CONTROLLER", "0.0.0.0", 0),
        advertised=Endpoint("CONTROLLER", "node-1.example", 19092),
        bootstrap_servers=(("a", 1), ("b", 2)),
        voter_addresses=((2, "b", 2), (3, "c", 3)),
        bootstrap_voters=(1, 2, 3),
        raft=raft,
        log=log,
        request_timeout_ms=1300,
        max_request_bytes=10 << 20,
        max_connections=11,
        max_connections_per_host=12,
        connections_max_idle_ms=60_000,
        failed_authentication_delay_ms=0,
        registers=True,
    )


def test_controller_settings_of_brokers_and_topics_are_passed() -> None:
    given = make(broker_session_timeout_ms="18s", default_replication_factor="3", num_partitions="12")
    assert given.node_settings().controller == ControllerSettings(18_000, 3, 12)
    assert make().node_settings().controller == ControllerSettings()


def test_long_poll_lasts_at_most_half_of_timeout() -> None:
    assert make(fetch_timeout_ms="300ms").node_settings().raft.fetch_max_wait_ms == 150
    assert make(request_timeout_ms="400ms").node_settings().raft.fetch_max_wait_ms == 200


def test_retention_defaults_match_kafka() -> None:
    defaults, log = LogSettings(), make().node_settings().log
    assert (log.snapshot_bytes, log.snapshot_ms) == (defaults.snapshot_bytes, defaults.snapshot_ms)
    assert (log.retention_bytes, log.retention_ms) == (defaults.retention_bytes, defaults.retention_ms)
    assert make().node_settings().raft.snapshot_max_bytes == RaftSettings().snapshot_max_bytes


def test_snapshot_chunks_fit_request_limit() -> None:
    raft = make(snapshot_max_bytes="1MiB", max_request_bytes="64KiB").node_settings().raft
    assert raft.snapshot_max_bytes == 32 << 10


def test_relative_directory_is_relative_to_working_directory() -> None:
    assert make(log_directories="run/1").node_settings().data_directory == os.path.join(os.getcwd(), "run/1")


def test_controller_only_by_default() -> None:
    settings = make()
    assert (settings.is_controller, settings.is_broker) == (True, False)
    assert settings.client_listeners == ()
    assert settings.data_directories == ("/data",)


def test_both_roles_have_a_listener_each() -> None:
    settings = make(**BOTH, advertised_listeners="PLAINTEXT://outside:9", log_directories="/a,/b")
    assert (settings.is_controller, settings.is_broker) == (True, True)
    assert settings.listener == Endpoint("CONTROLLER", "h", 2)
    assert settings.client_listeners == (Endpoint("PLAINTEXT", "h", 1),)
    assert settings.advertised(settings.client_listeners[0]) == Endpoint("PLAINTEXT", "outside", 9)
    assert settings.advertised(settings.listener) == settings.listener
    assert settings.data_directory == "/a"
    assert settings.data_directories == ("/a", "/b")
    assert settings.node_settings().registers


def test_broker_has_one_listener_and_is_not_a_registered_controller() -> None:
    settings = make(**BROKER, metadata_directory="/c")
    assert (settings.is_controller, settings.is_broker) == (False, True)
    assert settings.listener == settings.client_listeners[0] == Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    assert settings.controller_listener_name == "CONTROLLER"
    assert settings.data_directories == ("/c", "/data")
    assert not settings.node_settings().registers


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, {}),
        ({"log_retention_hours": "2"}, {"retention.ms": "7200000"}),
        ({"log_retention_hours": "-1"}, {"retention.ms": "-1"}),
        ({"log_retention_minutes": "1", "log_retention_hours": "2"}, {"retention.ms": "60000"}),
        ({"log_retention_ms": "5", "log_retention_minutes": "1"}, {"retention.ms": "5"}),
        (
            {"log_roll_hours": "1", "log_roll_jitter_ms": "7"},
            {"segment.ms": "3600000", "segment.jitter.ms": "7"},
        ),
        ({"message_max_bytes": "2000000"}, {"max.message.bytes": "2000000"}),
        ({"log_cleanup_policy": "compact,delete"}, {"cleanup.policy": "compact,delete"}),
    ],
)
def test_log_properties_are_defaults_of_topic_configs(
    texts: dict[str, str], expected: dict[str, str]
) -> None:
    assert make(**BROKER, **texts).topic_defaults() == expected


def test_defaults_of_brokers_match_their_packages() -> None:
    role = make(**BROKER).node_settings().broker
    assert role is not None
    endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
    assert role.template == BrokerSettings(1, "", ("/data",), (endpoint,), metadata_directory="/data")
    assert role.listen == ()


def test_broker_settings_get_the_cluster_id_and_the_bound_port() -> None:
    role = make(**BOTH | {"listeners": "PLAINTEXT://h:0,CONTROLLER://h:2"}).node_settings().broker
    assert role is not None
    assert role.listen == (Endpoint("PLAINTEXT", "h", 0),)
    settings = role.broker_settings("some-cluster", {"PLAINTEXT": 4711}.__getitem__)
    assert settings.cluster_id == "some-cluster"
    assert settings.listeners == (BrokerEndpoint("PLAINTEXT", "h", 4711, 0),)


@pytest.mark.parametrize(
    ("value", "paths"), [("", ()), ("*", ("*",)), ("/data,b", ("/data", os.path.abspath("b")))]
)
def test_cordoned_directories_are_passed_as_the_broker_names_them(value: str, paths: tuple[str, ...]) -> None:
    role = make(**BROKER, cordoned_log_directories=value, log_directories="/data,b").node_settings().broker
    assert role is not None
    assert role.template.cordoned_directories == paths


@pytest.mark.parametrize(
    ("name", "is_rack_aware"), [("RackAwareReplicaSelector", True), ("LeaderSelector", False)]
)
def test_replica_selector_sends_consumers_to_their_rack(name: str, is_rack_aware: bool) -> None:
    selector = f"org.apache.kafka.common.replica.{name}"
    role = make(**BROKER, replica_selector_class=selector).node_settings().broker
    assert role is not None
    assert role.template.api.is_rack_aware == is_rack_aware


def test_invalid_default_of_topic_config_is_rejected() -> None:
    with pytest.raises(ValidationError, match=r"'segment\.bytes', set to '1'"):
        make(**BROKER, log_segment_bytes="1")


def test_every_default_of_a_topic_config_is_kafkas_property() -> None:
    """The names of fields, keys and configs were written by hand."""
    named = {config.broker_name: name for name, config in TOPIC_CONFIGS.items() if config.broker_name}
    rows = {row.keys[0]: row for row in documentation() if "Default of the topic config" in row.meaning}
    assert len(rows) > 20
    for key, row in rows.items():
        assert named[key] in row.meaning
        field = key.replace(".", "_")
        value = TOPIC_CONFIGS[named[key]].default or "1048576"
        assert make(**BROKER, **{field: value}).topic_defaults() == {named[key]: value}


@pytest.mark.parametrize("row", [row for row in documentation() if row.keys[0] in BROKER_CONFIGS])
def test_broker_defaults_are_kafkas(row: SettingDocumentation) -> None:
    """Check the settings that only brokers have."""
    field = next(name for name in Settings.model_fields if keys_of(name) == row.keys)
    default = BROKER_CONFIGS[row.keys[0]].default
    if field in BROKER_ONLY_FIELDS and row.default and row.keys[0] != "broker.rack":
        value = getattr(make(), field)
        assert str(value).lower() == default


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        make().node_id = 2  # type: ignore[misc]  # the assignment that must fail


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "wildcard address"),
        ({"listeners": "PLAINTEXT://:9092"}, "add advertised.listeners=PLAINTEXT://<host>:9092"),
        ({"advertised_listeners": "OTHER://h:1"}, "no listener is named OTHER"),
        ({"listeners": "SSL://h:1"}, "ssl.keystore.location"),
        ({"listeners": "INSIDE://h:1"}, "listener.security.protocol.map=INSIDE:PLAINTEXT"),
        ({"listener_security_protocol_map": "PLAINTEXT:SASL_SSL"}, "set sasl.mechanism.controller.protocol"),
        ({"controller_listener_names": "CONTROLLER,PLAINTEXT"}, "no listener is named CONTROLLER"),
        ({"inter_broker_listener_name": "INSIDE"}, "no listener is named INSIDE"),
        ({"metrics_listener": "127.0.0.1:9092"}, "another port"),
        ({"metrics_listener": ":9092"}, "another port"),
        ({"quorum_voters": "1,2@h:1,3"}, "voter 3"),
        ({"auto_join": "true"}, "quorum.voters"),
        ({"connections_max_idle_ms": "2s"}, "quorum.fetch.timeout.ms (2000)"),
        ({"log_directories": ""}, "log_directories: is missing"),
        ({"log_directories": "/a,/b"}, "2 directories"),
        ({"process_roles": "broker"}, "controller_listener_names"),
        (BOTH | {"listeners": "PLAINTEXT://h:1"}, "both roles"),
        (BOTH | {"listeners": "CONTROLLER://h:1,PLAINTEXT://h:1"}, "uses a port twice"),
        (
            BOTH | {"listeners": "CONTROLLER://h:1,PLAINTEXT://:2"},
            "advertised.listeners=PLAINTEXT://<host>:2",
        ),
        (BOTH | {"inter_broker_listener_name": "CONTROLLER"}, "no listener is named CONTROLLER"),
        (BROKER | {"listeners": "CONTROLLER://h:1"}, "controller.listener.names"),
        (BROKER | {"quorum_voters": "1"}, "node 1"),
        (BROKER | {"cordoned_log_directories": "/data,/other"}, "/other is not in log.dirs"),
        (BROKER | {"cordoned_log_directories": "/data,*"}, "* alone"),
        (BROKER | {"quorum_voters": "", "auto_join": "true"}, "the controller role"),
    ],
)
def test_contradicting_settings_are_rejected(texts: dict[str, str], wrong: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        make(**texts)
    assert wrong in str(refusal.value)


@pytest.mark.parametrize(
    "texts",
    [
        {"listeners": "CONTROLLER://127.0.0.1:1"},
        {"listeners": "INSIDE://127.0.0.1:1", "listener_security_protocol_map": "inside:PLAINTEXT,SSL:SSL"},
        {"listeners": "CONTROLLER://127.0.0.1:1", "controller_listener_names": "controller,SSL"},
        {"metrics_listener": "127.0.0.2:9092"},
        {"listeners": "PLAINTEXT://127.0.0.1:0", "metrics_listener": "127.0.0.1:0"},
        {"quorum_voters": "1,2,3", "bootstrap_servers": "h:1"},
        {"quorum_voters": "", "bootstrap_servers": "h:1"},
        {"quorum_voters": "", "bootstrap_servers": "h:1", "auto_join": "TRUE"},
        {"process_roles": "controller"},
        {"listeners": "PLAINTEXT://h:1,CONTROLLER://h:2"},
        BOTH,
        BOTH | {"listeners": "PLAINTEXT://h:1,INSIDE://h:2,CONTROLLER://h:3", **INSIDE},
        BROKER | {"listeners": "PLAINTEXT://h:1,INSIDE://h:2", **INSIDE},
        BOTH | {"log_directories": "/a,/b"},
        BOTH | {"log_directories": "/a,/b", "metadata_directory": "/c"},
        BOTH | {"inter_broker_listener_name": "PLAINTEXT"},
        BROKER,
        BROKER | {"cordoned_log_directories": "/data"},
        BROKER | {"cordoned_log_directories": "*"},
        {"cordoned_log_directories": "/of/a/broker"},
    ],
)
def test_compatible_settings_are_accepted(texts: dict[str, str]) -> None:
    assert make(**texts).warnings() == ()


@pytest.mark.parametrize(
    ("texts", "warning"),
    [
        ({"fetch_timeout_ms": "900"}, "shorter than quorum.election.timeout.ms (1000)"),
        ({"retry_backoff_ms": "2s"}, "above quorum.retry.backoff.max.ms (1000)"),
        ({"append_linger_ms": "25"}, "append.linger.ms has no effect"),
        (
            {"authorizer_class": STANDARD_AUTHORIZER, "quorum_voters": "1@a:1,2@b:1"},
            "is set without super.users",
        ),
        ({"clock_offset_ms": "-1"}, "faults are injected into this node"),
        ({"fail_flush_after": "1"}, "faults are injected into this node"),
    ],
)
def test_suspicious_settings_give_warnings(texts: dict[str, str], warning: str) -> None:
    (line,) = make(**texts).warnings()
    assert warning in line


def test_documentation_has_all_keys_of_every_setting() -> None:
    rows = documentation()
    hidden = {
        "properties",
        "default_properties",
        "file_warnings",
        "listener_properties",
        "clock_offset_ms",
        "fail_flush_after",
    }  # not set by files of users
    assert len(rows) == len(Settings.model_fields.keys() - hidden)
    keys = [key for row in rows for key in row.keys]
    assert len(keys) == len(set(keys))
    assert all(row.meaning and row.allowed and row.kind for row in rows)
    assert {row.keys[0] for row in rows if row.default == "required"} == {"node.id", "listeners"}


@pytest.mark.parametrize(
    ("draft", "shipped"),
    [
        ("broker.id", "node.id"),
        ("quorum.voters", "controller.quorum.voters"),
        ("bootstrap.servers", "controller.quorum.bootstrap.servers"),
        ("quorum.auto.join.enable", "controller.quorum.auto.join.enable"),
        ("quorum.fetch.timeout.ms", "controller.quorum.fetch.timeout.ms"),
        ("quorum.election.timeout.ms", "controller.quorum.election.timeout.ms"),
        ("quorum.election.jitter.max.ms", "controller.quorum.election.backoff.max.ms"),
        ("quorum.request.timeout.ms", "controller.quorum.request.timeout.ms"),
        ("quorum.retry.backoff.ms", "controller.quorum.retry.backoff.ms"),
        ("quorum.fetch.snapshot.max.bytes", "controller.quorum.fetch.snapshot.max.bytes"),
    ],
)
def test_draft_key_and_kafka_key_are_one_setting(draft: str, shipped: str) -> None:
    (row,) = [row for row in documentation() if draft in row.keys]
    assert shipped in row.keys


def test_auto_join_is_off_by_default() -> None:
    assert not make().node_settings().auto_join
    assert make(quorum_voters="", bootstrap_servers="h:1", auto_join="true").node_settings().auto_join
    with pytest.raises(ValidationError, match="neither true nor false"):
        make(auto_join="yes")


def test_voters_and_servers_are_optional() -> None:
    """As in the draft, quorum.voters may be removed once the voters are in the log, which is checked at startup."""
    settings = make(quorum_voters="", bootstrap_servers="")
    assert settings.node_settings().bootstrap_voters == ()


def test_leader_balance_and_idle_defaults_match_kafka() -> None:
    controller = (
        make(leader_imbalance_check_interval_s="60", max_idle_interval_ms="0").node_settings().controller
    )
    assert (controller.leader_imbalance_check_interval_ms, controller.max_idle_interval_ms) == (60_000, 0)
    assert make().node_settings().controller.leader_imbalance_check_interval_ms == 300_000
    off = make(auto_leader_rebalance="false").node_settings().controller
    assert off.leader_imbalance_check_interval_ms == 0
