"""The properties file of one node: parsing, validation and documentation.

    load(path, environment) -> Settings     all problems in one ConfigError, each with file, line and key; only
                                            values of quorumd's own keys are shown
    Settings                        the frozen pydantic model; `.node_settings()` are the settings of a Node
    documentation()                 one row per setting: its keys, type, default and meaning

    properties      Java's properties format, with line numbers
    environment     QUORUMD_NODE_ID and the like, which override the file
    references      ${file:/path:key}, ${dir:/path:name}, ${env:NAME}
    kafka_keys      Kafka's keys that are not settings of quorumd: ignored or rejected
    values          kinds of values, such as durations, sizes, listeners and voters, and their allowed values
    settings        the model of all settings; the fields are in the modules that it names
    contradictions  settings that depend on each other
    loader          converts keys to settings, and problems to text

A setting has one meaning and often two names: the key of the KIP-595 draft and the key that Kafka shipped.
"""

from quorumd.config.loader import load
from quorumd.config.setting import SettingDocumentation
from quorumd.config.settings import Settings, documentation

__all__ = ["SettingDocumentation", "Settings", "documentation", "load"]
