"""Validation of client metrics subscriptions (KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from quorumd.controller.config_table import CLIENT_METRICS_CONFIGS
from quorumd.controller.config_values import parse_value, quoted, split_like_java
from quorumd.errors import ErrorCode, RequestError, invalid_config

INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_JAVA_CLASSES: Final = re.compile(r"\\[pP](\{\w+\}|[A-Z])")
"""Java's classes of POSIX and Unicode properties, such as \\p{Alpha}, which Python's regular expressions lack."""


def validate_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Check the configs of a client metrics subscription. Raises RequestError."""
    for name in configs:
        if name not in CLIENT_METRICS_CONFIGS:
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown client metrics config {quoted(name)}; known configs: {', '.join(CLIENT_METRICS_CONFIGS)}.",
            )
    values = {name: parse_value(name, CLIENT_METRICS_CONFIGS[name], text) for name, text in configs.items()}
    interval = values.get(INTERVAL)
    if isinstance(interval, int) and not MIN_INTERVAL_MS <= interval <= MAX_INTERVAL_MS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"{INTERVAL} is {interval}; it must be from {MIN_INTERVAL_MS} to {MAX_INTERVAL_MS}.",
        )
    patterns = values.get(MATCH)
    if isinstance(patterns, list):
        for pattern in patterns:
            _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    parts = split_like_java(pattern, "=")
    if len(parts) != 2 or parts[0].strip() not in SELECTORS:
        raise invalid_config(
            f"Invalid pattern {quoted(pattern)} in {MATCH}: expected NAME=PATTERN, where NAME is one of "
            f"{', '.join(SELECTORS)}."
        )
    try:
        re.compile(_JAVA_CLASSES.sub("x", parts[1].strip()))
    except re.error as error:
        raise invalid_config(f"Invalid regular expression {quoted(pattern)} in {MATCH}: {error}.") from None
