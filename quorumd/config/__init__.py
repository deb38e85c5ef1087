"""The properties file of one node: parsing, validation and documentation.

    load(path, environment) -> Settings     all problems in one ConfigError, each with file, line and key; only
                                            values of quorumd's own keys are shown
    Settings                        the frozen pydantic model; `.node_settings()` are the settings of a Node
    documentation()                 one row per setting: its keys, type, default and meaning

    properties            Java's properties format, with line numbers
    environment           QUORUMD_NODE_ID and the like, which override the file
    references            ${file:/path:key}, ${dir:/path:name}, ${env:NAME}
    kafka_keys            Kafka's keys that are not settings of quorumd: ignored or rejected
    values                kinds of values, such as durations, sizes, listeners and voters, and their allowed values
    setting               declares a setting: a field of a pydantic model with its keys
    settings              the model of all settings, from the following modules
    node_fields           the settings of every node
    security_fields       TLS and SASL, of all listeners or of one
    broker_fields         the settings of the broker role
    coordinator_fields    the settings of coordinators of groups and transactions
    topic_default_fields  the defaults of topic configs
    broker_conversion     the settings of a broker from these
    security              TLS and SASL of each listener from these
    jaas                  JAAS configurations, the values of `sasl.jaas.config`
    client                Kafka's client properties
    contradictions        settings that depend on each other
    loader                converts keys to settings, and problems to text

A setting has one meaning and often two names: the key of the KIP-595 draft and the key that Kafka shipped.
"""

from quorumd.config.loader import load
from quorumd.config.setting import SettingDocumentation
from quorumd.config.settings import Settings, documentation

__all__ = ["SettingDocumentation", "Settings", "documentation", "load"]
