"""The properties file of one node: parsing, validation and documentation.

    load(path, environment)  -> Settings; reports all problems in one ConfigError, each with file, line and key, and
                             shows values only of quorumd's own keys
    Settings                 the frozen pydantic model; `node_settings()` converts it to the settings of a Node
    documentation()          one row per setting: its keys, type, default and meaning

    properties            Java's properties format, with line numbers
    environment           variables such as QUORUMD_NODE_ID, which override the file
    references            ${file:/path:key}, ${dir:/path:name}, ${env:NAME}
    kafka_keys            Kafka's keys that are not settings of quorumd: ignored or rejected
    values                kinds of values, such as durations, sizes, listeners and voters, and their allowed values
    setting               declares a setting: a field of a pydantic model with its keys
    settings              the model of all settings, which combines the following modules
    node_fields           settings of every node
    security_fields       settings of TLS and SASL, for all listeners or for one
    broker_fields         settings of the broker role
    coordinator_fields    settings of the coordinators of groups and transactions
    topic_default_fields  defaults of topic configs
    broker_conversion     converts them to the settings of a broker
    security              converts them to the TLS and SASL settings of each listener
    jaas                  JAAS configurations, the values of `sasl.jaas.config`
    client                Kafka's client properties
    contradictions        settings that cannot be combined, and suspicious ones
    described             the settings as DescribeConfigs returns them
    loader                converts keys to settings, and problems to text

Many settings have two keys: that of the KIP-595 draft and that of Kafka as shipped.
"""

from quorumd.config.loader import load
from quorumd.config.setting import SettingDocumentation
from quorumd.config.settings import Settings, documentation

__all__ = ["SettingDocumentation", "Settings", "documentation", "load"]
