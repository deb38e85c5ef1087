"""The settings that DescribeConfigs returns: those of the file, and the defaults of the others."""

from pathlib import Path

import pytest

from quorumd.config import Settings, load
from quorumd.config.settings import BROKER_ONLY_FIELDS, keys_of

CONTROLLER = """\
broker.id=1
log.dirs=/data
listeners=CONTROLLER://127.0.0.1:9092
controller.listener.names=CONTROLLER
quorum.voters=1
"""
BROKER = (
    CONTROLLER.replace("listeners=", "listeners=PLAINTEXT://127.0.0.1:0,", 1)
    + "process.roles=broker,controller\n"
)


def settings_of(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "node.properties"
    path.write_text(text)
    return load(str(path), {})


def test_numbers_of_the_file_are_in_the_units_of_their_keys(tmp_path: Path) -> None:
    given = "quorum.fetch.timeout.ms=3s\nsocket.request.max.bytes=2MiB\nallow.everyone.if.no.acl.found=TRUE\n"
    properties = dict(settings_of(tmp_path, CONTROLLER + given).properties)
    assert properties["quorum.fetch.timeout.ms"] == "3000"
    assert properties["socket.request.max.bytes"] == str(2 * 1024 * 1024)
    assert properties["allow.everyone.if.no.acl.found"] == "true"
    assert properties["listeners"] == "CONTROLLER://127.0.0.1:9092"


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("connections.max.idle.ms", "600000"),
        ("auto.create.topics.enable", "true"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        ("log.retention.hours", "168"),
        ("log.retention.ms", None),
        ("compression.type", "producer"),
        ("advertised.listeners", None),
        ("metrics.listener", None),
    ],
)
def test_defaults_of_other_settings_are_described(tmp_path: Path, key: str, default: str | None) -> None:
    assert dict(settings_of(tmp_path, BROKER).default_properties)[key] == default


def test_each_setting_is_described_once_by_the_file_or_by_its_default(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, BROKER + "ssl.key.password=secret\n")
    defaults = dict(settings.default_properties)
    assert len(defaults) == len(settings.default_properties)
    for field in Settings.model_fields:
        keys = set(keys_of(field))
        if keys and not any(key.startswith("internal.") for key in keys):
            assert bool(keys & defaults.keys()) == (field not in settings.model_fields_set), field
    assert "ssl.key.password" not in {*defaults, *dict(settings.properties)}


def test_controllers_do_not_describe_settings_of_brokers(tmp_path: Path) -> None:
    described = {key for key, _ in settings_of(tmp_path, CONTROLLER).default_properties}
    assert described
    assert not described & {key for field in BROKER_ONLY_FIELDS for key in keys_of(field)}
