"""The properties file of one node: read, checked, explained.

    load(path, environment) -> Settings     every problem in one ConfigError, each with file, line and key; no
                                            value of a key that is not quorumd's
    Settings                        the frozen pydantic model; `.node_settings()` is what a Node takes
    documentation()                 one row a setting: its keys, type, default and meaning

    properties      Java's properties format, with line numbers
    environment     QUORUMD_NODE_ID and the like, which win over the file
    references      ${file:/path:key}, ${dir:/path:name}, ${env:NAME}
    kafka_keys      keys of Kafka that are no settings here: without effect, or refused
    values          kinds of values: durations, sizes, listeners, voters; what each allows
    settings        the settings themselves, in one list, and how they depend on each other
    loading         keys -> settings; problems -> text

A setting has one meaning and often two names: the key of the KIP-595 draft and the key that Kafka shipped.
"""

from quorumd.config.loader import load
from quorumd.config.settings import SettingDocumentation, Settings, documentation

__all__ = ["SettingDocumentation", "Settings", "documentation", "load"]
