"""From a file to Settings: aliases, and every problem of a file at once, each with its line."""

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.config.loader import HINT, MAX_FAULTS, MAX_UNKNOWN_KEYS
from quorumd.errors import ConfigError

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


def test_a_file_as_given_is_the_static_configuration(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "quorum.fetch.timeout.ms = 3s\n")
    settings = load(str(path))
    assert settings.node_id == 1
    assert settings.fetch_timeout_ms == 3000
    assert settings.static_properties() == (
        ("broker.id", "1"),
        ("log.dirs", "/data"),
        ("listeners", "PLAINTEXT://127.0.0.1:9092"),
        ("quorum.voters", "1"),
        ("quorum.fetch.timeout.ms", "3s"),
    )
    assert settings.node_settings().static_configs == settings.static_properties()


def test_all_problems_of_a_file_are_told_in_order_with_file_line_key_and_what_is_allowed(
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
    assert reported == [
        ": log.dirs (or log.dir, metadata.log.dir): is missing; allowed: one folder, absolute or relative to "
        "where the daemon is started",
        ":1: quorum.fetch.timout.ms: unknown key; did you mean quorum.fetch.timeout.ms?",
        ":2: node.id=one: not an integer; allowed: an integer from 0 to 2147483647",
        ":3: listeners=PLAINTEXT://:9092: other nodes cannot connect to a wildcard address; allowed: a specific "
        "address, or add advertised.listeners=PLAINTEXT://<host>:9092",
        ":5: connections.max.idle.ms=1s: connections of waiting followers would be closed; allowed: more "
        "than quorum.fetch.timeout.ms (2000)",
        ":6: log.level=LOUD: not one of the choices; allowed: DEBUG, INFO, WARNING, ERROR",
        ":7: a: four hexadecimal digits must follow \\u; allowed: Java's escapes",
        ": `quorumd config docs` lists the known keys",
    ]


def test_what_depends_on_a_bad_value_is_not_told(tmp_path: Path) -> None:
    # Whether voters 2 and 3 can be found depends on the value that cannot be read.
    reported = problems(tmp_path, GOOD.replace("voters=1", "voters=1,2") + "bootstrap.servers=nowhere\n")
    assert len(reported) == 1
    assert reported[0].startswith(":6: bootstrap.servers=nowhere: 'nowhere' is not host:port")


@pytest.mark.parametrize(
    "line",
    [
        "quorum.fetch.timout.ms=hunter2",
        "super.users=hunter2",
        'sasl.jaas.config=org.apache.Module required password="hunter2";',
        "listener.name.controller.plain.sasl.jaas.config=hunter2",
        "quorum.voterz=\\uhunter2",
        'password="hunter2";\nquorum.voterz=1',
        "node.id=${env:SECRET}",
        "quorum.fetch.timeout.ms=${env:SECRET}ms",
        "quorum.voters=1@${env:SECRET}",
    ],
)
def test_no_error_shows_what_may_be_a_secret(tmp_path: Path, line: str) -> None:
    text = GOOD.replace("broker.id=1\n", "").replace("quorum.voters=1\n", "")
    path = tmp_path / "node.properties"
    path.write_text(f"{text}{line}\nnode.id=x\n")
    with pytest.raises(ConfigError) as refusal:
        load(str(path), {"SECRET": "hunter2"})
    assert "hunter2" not in str(refusal.value)


def test_keys_that_nobody_knows_are_warned_of_once_with_one_hint(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "our.password=hunter2\nour.team=metal\nour.password=hunter3\n")
    assert [warning.removeprefix(str(path)) for warning in load(str(path)).warnings()] == [
        ":6: our.password is unknown to quorumd and Kafka and is ignored",
        ":7: our.team is unknown to quorumd and Kafka and is ignored",
        HINT,
    ]


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


def test_the_file_of_a_stock_controller_is_accepted_with_a_warning_for_each_key_without_effect(
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
    lines = [7, 8, 9, 10, 14, 15, 16, 17, 18, 19, 20, 21, 22, 27, 28]
    assert [int(warning.partition(":")[0]) for warning in without_effect] == lines
    assert without_effect[0] == "7: num.network.threads has no effect here"
    assert "hunter2" not in "".join(without_effect)
    reported = dict(settings.static_properties())
    assert reported["num.partitions"] == "1"
    assert not [key for key in reported if key.startswith(("ssl", "listener.name", "num.network"))]


@pytest.mark.parametrize("lines", ["{broker}{metadata}", "{metadata}{broker}"])
@pytest.mark.parametrize("broker", ["log.dirs=/data/1,/data/2", "log.dir=/data/1"])
def test_the_metadata_folder_wins_over_the_folders_of_a_broker(
    tmp_path: Path, lines: str, broker: str
) -> None:
    path = tmp_path / "node.properties"
    rest = "".join(line for line in GOOD.splitlines(keepends=True) if not line.startswith("log.dir"))
    path.write_text(rest + lines.format(broker=f"{broker}\n", metadata="metadata.log.dir=/metadata\n"))
    settings = load(str(path))
    assert settings.data_directory == "/metadata"
    (warning,) = settings.warnings()
    assert warning.endswith(f": {broker} is ignored because metadata.log.dir is set")
    assert broker.partition("=")[0] not in dict(settings.static_properties())


def test_two_keys_that_name_one_metadata_folder_need_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(STOCK.replace("log.dirs", "metadata.log.dir") + "log.dirs=/tmp/kraft-controller-logs\n")
    assert not [warning for warning in load(str(path)).warnings() if "log.dir" in warning]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "ACLs are not supported yet",
        ),
        ("super.users=User:admin", "ACLs are not supported yet"),
        ("ssl.client.auth=required", "TLS is not supported yet"),
        ("listener.name.controller.ssl.client.auth=required", "TLS is not supported yet"),
        ("sasl.enabled.mechanisms=PLAIN", "SASL is not supported yet"),
        ("listener.name.controller.scram-sha-512.sasl.jaas.config=x", "SASL is not supported yet"),
        ("create.topic.policy.class.name=com.example.Policy", "policies written in Java"),
        ("delete.topic.enable=false", "topic deletion cannot be disabled"),
    ],
)
def test_a_key_that_is_dangerous_to_ignore_is_refused(tmp_path: Path, line: str, reason: str) -> None:
    (reported,) = problems(tmp_path, GOOD + line + "\n")
    assert reported.startswith(f":6: {line.partition('=')[0]}: ")
    assert reason in reported
    assert reported.endswith("; remove it only if the quorum may run without it")


def test_a_listener_of_a_stock_file_that_is_not_plaintext_is_refused(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, STOCK + "listener.security.protocol.map=CONTROLLER:SSL\n")
    assert "SSL is not supported yet" in reported


def test_the_environment_wins_over_the_file_whatever_the_file_calls_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD)
    settings = load(str(path), {"QUORUMD_NODE_ID": "1", "QUORUMD_QUORUM_FETCH_TIMEOUT_MS": "3s"})
    assert (settings.node_id, settings.fetch_timeout_ms) == (1, 3000)
    assert ("node.id", "1") in settings.static_properties()
    assert ("broker.id", "1") not in settings.static_properties()


def test_what_is_wrong_in_the_environment_names_the_variable(tmp_path: Path) -> None:
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


def test_references_are_resolved_and_clients_are_not_told_what_they_stand_for(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("a=0\nnode=1\n")
    path = tmp_path / "node.properties"
    path.write_text(GOOD.replace("broker.id=1", f"broker.id=${{file:{tmp_path}/secrets.properties:node}}"))
    settings = load(str(path), {})
    assert settings.node_id == 1
    assert "broker.id" not in dict(settings.static_properties())


def test_a_reference_that_cannot_be_resolved_is_told_without_a_content(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "log.level=${file:/nonexistent/file:level}\n")
    assert reported == (
        ":6: log.level: ${file:/nonexistent/file:level}: cannot be read: No such file or directory"
    )


def test_references_in_keys_without_effect_are_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(GOOD + "ssl.key.password=${file:/nonexistent/file:level}\n")
    assert load(str(path)).warnings() == (f"{path}:6: ssl.key.password has no effect here",)


def test_two_names_of_one_setting_with_different_values(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "node.id=2\n")
    assert reported == (
        ":6: node.id=2: differs from broker.id=1 on line 2, and both keys are the same setting; keep one of them"
    )


def test_one_key_twice_with_different_values(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, GOOD + "broker.id=2\n")
    assert reported == ":6: broker.id=2: differs from broker.id=1 on line 2; keep one of them"


def test_two_names_of_one_setting_with_the_same_value_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(
        GOOD + "node.id=1\nquorum.request.timeout.ms=2s\ncontroller.quorum.request.timeout.ms=2000\n"
    )
    assert load(str(path)).request_timeout_ms == 2000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"none.properties: cannot be read: No such file or directory; give the path"
    ):
        load(str(tmp_path / "none.properties"))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(b"node.id=1\n\xff\xfe")
    with pytest.raises(ConfigError, match=r"node.properties:2: not UTF-8"):
        load(str(path))


def test_a_file_of_another_kind_ends_the_search_for_problems(tmp_path: Path) -> None:
    """Looking for what each of its lines may have meant took minutes."""
    reported = problems(tmp_path, "".join(f"quorum.voter{number}=1\n" for number in range(3000)))
    assert len(reported) == MAX_FAULTS + 2
    assert reported[-2:] == [":21: too many problems; the rest of the file was not checked", f": {HINT}"]
    reported = problems(tmp_path, "".join(f"strange.{number}=1\n" for number in range(3000)))
    assert reported == [
        f":{MAX_UNKNOWN_KEYS + 2}: too many problems; the rest of the file was not checked",
        f": {HINT}",
    ]


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    (reported,) = problems(tmp_path, "# nothing\n" * 7000)
    assert "larger than 65536 bytes" in reported
