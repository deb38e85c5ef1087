"""Settings from the environment."""

from __future__ import annotations

from quorumd.config.environment import misspelled, overrides, variable_name, without_overrides
from quorumd.config.setting import INTERNAL
from quorumd.config.settings import Settings, keys_of
from tests.support.text import shows

KEYS = [key for name in Settings.model_fields for key in keys_of(name) if not key.startswith(INTERNAL)]


def test_every_key_has_its_own_variable() -> None:
    assert len({variable_name(key) for key in KEYS}) == len(KEYS)
    assert variable_name("node.id") == "QUORUMD_NODE_ID"


def test_only_set_variables_override() -> None:
    (given,) = overrides(KEYS, {"QUORUMD_NODE_ID": "7", "NODE_ID": "8", "PATH": ""})
    assert (given.key, given.value, given.line, given.origin) == ("node.id", "7", 0, "QUORUMD_NODE_ID")


def test_node_configured_by_file_only_gets_no_overrides() -> None:
    environment = {"QUORUMD_NODE_ID": "7", "QUORUMD_BOOTSTRAP_SERVER": "h:1", "PATH": "/bin"}
    assert without_overrides(environment) == {"QUORUMD_BOOTSTRAP_SERVER": "h:1", "PATH": "/bin"}


def test_misspelt_variable_is_reported_and_others_ignored() -> None:
    environment = {
        "QUORUMD_NODE_IDD": "hunter2",
        "QUORUMD_BOOTSTRAP_SERVER": "h:1",
        "QUORUMD_SERVICE_HOST": "10.0.0.1",
        "QUORUMD_PORT": "tcp://10.0.0.1:9192",
    }
    (warning,) = misspelled(KEYS, environment)
    assert shows(warning, "QUORUMD_NODE_IDD", "QUORUMD_NODE_ID?")
