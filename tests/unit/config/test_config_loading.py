"""From a file to Settings: aliases, and every problem of a file at once, each with its line."""

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.config.loading import MOST_FAULTS
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
    told = problems(
        tmp_path,
        "quorum.fetch.timout.ms=2s\n"
        "node.id=one\n"
        "listeners=PLAINTEXT://:9092\n"
        "quorum.voters=1,2\n"
        "connections.max.idle.ms=1s\n"
        "log.level=LOUD\n"
        "a=\\u12\n",
    )
    assert told == [
        ": log.dirs (or log.dir, metadata.log.dir): is missing; allowed: one folder, absolute or relative to "
        "where the daemon is started",
        ":1: quorum.fetch.timout.ms=2s: unknown key; did you mean quorum.fetch.timeout.ms?",
        ":2: node.id=one: not a whole number; allowed: a whole number from 0 to 2147483647",
        ":3: listeners=PLAINTEXT://:9092: others cannot be told a wildcard address; allowed: name the "
        "address, or add advertised.listeners=PLAINTEXT://<host>:9092",
        ":5: connections.max.idle.ms=1s: the connections of waiting followers would be closed; allowed: more "
        "than quorum.fetch.timeout.ms (2000)",
        ":6: log.level=LOUD: not one of the choices; allowed: DEBUG, INFO, WARNING, ERROR",
        ":7: a=\\u12: \\u12 is no character: four hexadecimal digits must follow \\u; "
        "allowed: Java's escapes",
    ]


def test_what_depends_on_a_bad_value_is_not_told(tmp_path: Path) -> None:
    # Whether voters 2 and 3 can be found depends on the value that cannot be read.
    told = problems(tmp_path, GOOD.replace("voters=1", "voters=1,2") + "bootstrap.servers=nowhere\n")
    assert len(told) == 1
    assert told[0].startswith(":6: bootstrap.servers=nowhere: 'nowhere' is no host:port")


def test_an_unknown_key_that_resembles_none_lists_the_known_ones(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, GOOD + "num.io.threads=8\n")
    assert told.startswith(":6: num.io.threads=8: unknown key; remove it. Known keys: ")
    assert "controller.quorum.voters" in told


def test_two_names_of_one_setting_with_different_values(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, GOOD + "node.id=2\n")
    assert told == (
        ":6: node.id=2: differs from broker.id=1 on line 2, and both keys name one setting; keep one of them"
    )


def test_one_key_twice_with_different_values(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, GOOD + "broker.id=2\n")
    assert told == ":6: broker.id=2: differs from broker.id=1 on line 2; keep one of them"


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
    told = problems(tmp_path, "".join(f"quorum.{number}=1\n" for number in range(3000)))
    assert len(told) == MOST_FAULTS + 1
    assert told[-1] == ":21: and perhaps more: the file is not read on"


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, "# nothing\n" * 7000)
    assert "larger than 65536 bytes" in told
