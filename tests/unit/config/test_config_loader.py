"""From a file to Settings: aliases, and all problems of a file at once, each with its line."""

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.config.loader import HINT, MAX_FAULTS, MAX_UNKNOWN_KEYS
from quorumd.errors import ConfigError
from tests.support.text import shows

GOOD = """\
# a comment
broker.id=1
log.dirs=/data
listeners=PLAINTEXT://127.0.0.1:9092
quorum.voters=1
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "node.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(str(path))
    return [line.removeprefix(str(path)) for line in str(refusal.value).splitlines()]


def test_static_configs_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "quorum.fetch.timeout.ms = 3s\n")
    settings = load(str(path))
    assert settings.node_id == 1
    assert settings.fetch_timeout_ms == 3000
    assert settings.properties == (
        ("broker.id", "1"),
        ("log.dirs", "/data"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("quorum.voters", "1"),
        ("quorum.fetch.timeout.ms", "3000"),
    )
    assert settings.node_settings().static_configs == settings.properties
    assert settings.node_settings().default_configs == settings.default_properties


def test_all_problems_are_reported_with_place_and_allowed_values(
    tmp_path: Path,
) -> None:
    reported = problems(
        tmp_path,
        "quorum.fetch.timout.ms=2s\n"
        "node.id=one\n"
        "listeners=PLAINTEXT://:9092\n"
        "quorum.voters=1,2\n"
        "connections.max.idle.ms=1s\n"
        "log.level=LOUD\n"
        "a=\\u12\n",
    )
    expected = [
        (": log.dirs", "log.dir", "missing", "allowed:"),
        (":1: quorum.fetch.timout.ms:", "quorum.fetch.timeout.ms?"),
        (":2: node.id=one:", "allowed:", "0 to 2147483647"),
        (
            ":3: listeners=PLAINTEXT://:9092:",
            "wildcard",
            "allowed:",
            "advertised.listeners=PLAINTEXT://<host>:9092",
        ),
        (":5: connections.max.idle.ms=1s:", "allowed:", "quorum.fetch.timeout.ms (2000)"),
        (":6: log.level=LOUD:", "allowed: DEBUG, INFO, WARNING, ERROR"),
        (":7: a:", "\\u", "allowed:"),
        (HINT,),
    ]
    assert len(reported) == len(expected)
    for line, facts in zip(reported, expected, strict=True):
        assert shows(line, *facts), line


def test_problems_depending_on_invalid_value_are_not_reported(tmp_path: Path) -> None:
    # Whether voters 2 and 3 can be found depends on the unreadable value.
    reported = problems(tmp_path, GOOD.replace("voters=1", "voters=1,2") + "bootstrap.servers=nowhere\n")
    assert len(reported) == 1
    assert shows(reported[0], ":6: bootstrap.servers=nowhere", "host:port")


@pytest.mark.parametrize(
    "line",
    [
        "quorum.fetch.timout.ms=hunter2",
        "delegation.token.secret.key=hunter2\\u0007",
        'sasl.jaas.config=org.apache.Module required password="hunter2";',
        "listener.name.controller.plain.sasl.jaas.config=hunter2",
        "quorum.voterz=\\uhunter2",
        'password="hunter2";\nquorum.voterz=1',
        "node.id=${env:SECRET}",
        "quorum.fetch.timeout.ms=${env:SECRET}ms",
        "quorum.voters=1@${env:SECRET}",
    ],
)
def test_errors_show_no_possible_secret(tmp_path: Path, line: str) -> None:
    text = GOOD.replace("broker.id=1\n", "").replace("quorum.voters=1\n", "")
    path = tmp_path / "node.properties"
    path.write_text(f"{text}{line}\nnode.id=x\n")
    with pytest.raises(ConfigError) as refusal:
        load(str(path), {"SECRET": "hunter2"})
    assert "hunter2" not in str(refusal.value)


def test_unknown_keys_give_one_warning_and_one_hint(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "our.password=hunter2\nour.team=metal\nour.password=hunter3\n")
    password, team, hint = load(str(path)).warnings()
    assert shows(password, f"{path}:6: our.password ", "ignored")
    assert shows(team, f"{path}:7: our.team ", "ignored")
    assert hint == HINT


STOCK = """\
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-controller-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_stock_controller_file_is_accepted_with_warnings(
    tmp_path: Path,
) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(
        STOCK
        + "ssl.keystore.location=/etc/k.jks\nssl.keystore.password=hunter2\nssl.keystore.password=hunter2\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL\n"
        "ssl.client.auth=none\nauthorizer.class.name=\nconfluent.balancer.enable=true\n"
        "listener.name.controller.ssl.key.password=hunter2\n"
    )
    settings = load(str(path))
    without_effect = [warning.removeprefix(f"{path}:") for warning in settings.warnings()]
    lines = [7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 27]
    assert [int(warning.partition(":")[0]) for warning in without_effect] == lines
    assert without_effect[0].startswith("7: num.network.threads ")
    assert "hunter2" not in "".join(without_effect)
    reported = dict(settings.properties)
    assert reported["num.partitions"] == "1"
    assert "hunter2" not in str(reported)
    assert not [key for key in reported if key.startswith(("listener.name", "num.network"))]


@pytest.mark.parametrize("lines", ["{broker}{metadata}", "{metadata}{broker}"])
@pytest.mark.parametrize("broker", ["log.dirs=/data/1,/data/2", "log.dir=/data/1"])
def test_metadata_log_dir_overrides_log_dirs(tmp_path: Path, lines: str, broker: str) -> None:
    path = tmp_path / "node.properties"
    rest = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith("log.dir"))
    path.write_text(rest + lines.format(broker=f"{broker}\n", metadata="metadata.log.dir=/metadata\n"))
    settings = load(str(path))
    assert settings.data_directory == "/metadata"
    (warning,) = settings.warnings()
    assert shows(warning, broker, "metadata.log.dir")
    assert broker.partition("=")[0] not in dict(settings.properties)


def test_broker_has_directories_besides_that_of_metadata(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(
        "process.roles=broker\nnode.id=4\nlisteners=PLAINTEXT://127.0.0.1:9092\nquorum.voters=1@h:1\n"
        "controller.listener.names=CONTROLLER\nlog.dirs=/a,/b\nmetadata.log.dir=/c\nlog.retention.hours=1\n"
    )
    settings = load(str(path))
    assert settings.data_directories == ("/c", "/a", "/b")
    assert settings.topic_defaults() == {"retention.ms": "3600000"}
    assert settings.warnings() == ()


def test_settings_of_brokers_give_warnings_on_controllers(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "log.retention.ms=1\n")
    (warning,) = load(str(path)).warnings()
    assert shows(warning, f"{path}:6: log.retention.ms", "broker role")


def test_equal_metadata_and_log_dirs_give_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(STOCK.replace("log.dirs", "metadata.log.dir") + "log.dirs=/tmp/kraft-controller-logs\n")
    assert not [warning for warning in load(str(path)).warnings() if "log.dir" in warning]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ssl.engine.factory.class=com.example.Engine", "this part of TLS is not supported"),
        ("listener.name.controller.ssl.provider=BC", "this part of TLS is not supported"),
        ("sasl.kerberos.service.name=kafka", "this part of SASL is not supported"),
        ("listener.name.controller.gssapi.sasl.jaas.config=x", "this part of SASL is not supported"),
        ("create.topic.policy.class.name=com.example.Policy", "policies written in Java"),
        ("delete.topic.enable=false", "topic deletion cannot be disabled"),
    ],
)
def test_key_that_is_unsafe_to_ignore_is_rejected(tmp_path: Path, line: str, reason: str) -> None:
    (reported,) = problems(tmp_path, GOOD + line + "\n")
    assert reported.startswith(f":6: {line.partition('=')[0]}: ")
    assert reason in reported
    assert "remove it" in reported


def test_listener_with_tls_needs_a_certificate(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, STOCK + "listener.security.protocol.map=CONTROLLER:SSL\n")
    assert "ssl.keystore.location" in reported


def test_environment_overrides_file_under_any_key(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD)
    settings = load(str(path), {"QUORUMD_NODE_ID": "1", "QUORUMD_QUORUM_FETCH_TIMEOUT_MS": "3s"})
    assert (settings.node_id, settings.fetch_timeout_ms) == (1, 3000)
    assert ("node.id", "1") in settings.properties
    assert ("broker.id", "1") not in settings.properties


def test_invalid_environment_value_names_variable(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD)
    environment = {"QUORUMD_NODE_ID": "x", "QUORUMD_BROKER_ID": "2", "QUORUMD_LOG_LEVEL": "LOUD"}
    with pytest.raises(ConfigError) as refusal:
        load(str(path), environment)
    reported = str(refusal.value).splitlines()
    assert [line.partition(":")[0] for line in reported] == [
        "environment variable QUORUMD_BROKER_ID",
        "environment variable QUORUMD_NODE_ID",
        "environment variable QUORUMD_LOG_LEVEL",
    ]
    assert "differs from node.id=x on QUORUMD_NODE_ID" in reported[0]


def test_references_are_resolved_and_hidden_from_clients(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("a=0\nnode=1\n")
    path = tmp_path / "node.properties"
    path.write_text(GOOD.replace("broker.id=1", f"broker.id=${{file:{tmp_path}/secrets.properties:node}}"))
    settings = load(str(path), {})
    assert settings.node_id == 1
    assert "broker.id" not in dict(settings.properties)


def test_unresolvable_reference_is_reported_without_content(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "log.level=${file:/nonexistent/file:level}\n")
    assert shows(reported, ":6: log.level:", "${file:/nonexistent/file:level}", "No such file")


def test_references_in_ignored_keys_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "num.io.threads=${file:/nonexistent/file:level}\n")
    (warning,) = load(str(path)).warnings()
    assert warning.startswith(f"{path}:6: num.io.threads ")


def test_contradicting_aliases_are_rejected(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "node.id=2\n")
    assert shows(reported, ":6: node.id=2:", "broker.id=1", "line 2", "same setting")


def test_contradicting_duplicate_key_is_rejected(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "broker.id=2\n")
    assert shows(reported, ":6: broker.id=2:", "broker.id=1", "line 2")


def test_equal_aliases_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(
        GOOD + "node.id=1\nquorum.request.timeout.ms=2s\ncontroller.quorum.request.timeout.ms=2000\n"
    )
    assert load(str(path)).request_timeout_ms == 2000


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties: .*No such file"):
        load(str(tmp_path / "none.properties"))


def test_binary_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(b"node.id=1\n\xff\xfe")
    with pytest.raises(ConfigError, match=r"node.properties:2: not UTF-8"):
        load(str(path))


def test_file_of_other_kind_stops_checks(tmp_path: Path) -> None:
    """Searching for similar keys for each of its lines took minutes."""
    reported = problems(tmp_path, "".join(f"quorum.voter{number}=1\n" for number in range(3000)))
    assert len(reported) == MAX_FAULTS + 2
    assert shows(reported[-2], f":{MAX_FAULTS + 1}:", "too many")
    reported = problems(tmp_path, "".join(f"strange.{number}=1\n" for number in range(3000)))
    assert len(reported) == 2
    assert shows(reported[0], f":{MAX_UNKNOWN_KEYS + 2}:", "too many")


def test_oversized_file_is_reported(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, "# nothing\n" * 7000)
    assert "larger than 65536 bytes" in reported
