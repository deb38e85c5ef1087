"""Values of configs, parsed and validated as by Kafka's ConfigDef.

A value is text on the wire and in the log. As by Java's String.trim, spaces and control characters are stripped from
both ends, whatever the type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from quorumd.controller.config_table import ConfigDefinition, ConfigType
from quorumd.errors import invalid_config

Value = bool | int | float | str | list[str] | None

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)
_SPECIAL: Final = re.compile(r"[+-]?(NaN|Infinity)")
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII
)
_COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_STRIPPED: Final = "".join(map(chr, range(33)))
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"[+-]?P(?=.)([+-]?\d+D)?(T(?=.)([+-]?\d+H)?([+-]?\d+M)?([+-]?\d+([.,]\d{0,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_AMOUNT: Final = re.compile(r"([+-]?)(\d+)(?:[.,](\d*))?([DHMS])", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {"D": 86_400, "H": 3600, "M": 60, "S": 1}
_SHOWN_CHARACTERS: Final = 64


def quoted(text: str) -> str:
    """Quote a name or value for an error message, shortened so that the message fits a wire string."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")


def parse_value(name: str, definition: ConfigDefinition, text: str) -> Value:
    """Parse and check a value. Raises RequestError with INVALID_CONFIG."""
    stripped = text.strip(_STRIPPED)
    value, problem = _parse(definition.type, stripped)
    if problem is None and definition.rule:
        problem = _check_rule(definition.rule, value)
    if problem is not None:
        raise invalid_config(f"{quoted(name)}, set to {quoted(text)}, {problem}.")
    return value


def default_value(definition: ConfigDefinition) -> Value:
    """Return the parsed built-in default, None if there is none."""
    return None if definition.default is None else _parse(definition.type, definition.default)[0]


def split_list(text: str) -> list[str]:
    """Split a comma-separated list into its items; an empty list has none."""
    stripped = text.strip(_STRIPPED)
    if "," not in stripped:
        return [stripped] if stripped else []
    return _COMMA.split(stripped)


def split_like_java(text: str, separator: str) -> list[str]:
    """Split like Java's String.split: without trailing empty parts, and an empty text into one empty part."""
    parts = text.split(separator)
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _parse(kind: ConfigType, text: str) -> tuple[Value, str | None]:
    """Return the value, and the reason if it is invalid."""
    if kind is ConfigType.BOOLEAN:
        lower = text.lower()
        return lower == "true", None if lower in ("true", "false") else "must be true or false"
    if kind is ConfigType.LIST:
        return split_list(text), None
    bits = _BITS.get(kind)
    if bits is not None:
        limit = 1 << (bits - 1)
        if _WHOLE_NUMBER.fullmatch(text) and -limit <= int(text) < limit:
            return int(text), None
        return None, f"must be a whole number of {bits} bits"
    if kind is ConfigType.DOUBLE:
        return _parse_double(text)
    return text, None


def _parse_double(text: str) -> tuple[Value, str | None]:
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD")), None
    if _SPECIAL.fullmatch(text):
        return float(text.replace("Infinity", "inf")), None
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD") if text[-1] in "fFdD" else text), None
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf"), None
    return None, "must be a number"


def _check_rule(rule: str, value: Value) -> str | None:
    """Return why a value of the right type is invalid; scripts/generate_configs.py explains the rules."""
    kind, equals, choices = rule.partition("=")
    if equals:
        allowed = choices.split(",") if choices else []
        if isinstance(value, list):
            return _check_list_rule(kind, allowed, value)
        text = str(value)
        is_allowed = text.upper() in allowed if kind == "case-insensitive" else text in allowed
        return None if is_allowed else f"must be one of {', '.join(allowed)}"
    if rule == "replicas":
        assert isinstance(value, list)
        items = [item.strip(_STRIPPED) for item in value]
        if "".join(items) == "*" or all(_REPLICA.fullmatch(item) for item in items):
            return None
        return "must be a list of partition:broker, or * for all"
    if rule == "non-empty":
        return None if value else "must not be empty"
    if rule == "offset-reset":
        return None if is_offset_reset(str(value)) else "must be earliest, latest or by_duration:PnDTnHnMn.nS"
    assert isinstance(value, (int, float))
    bounds, _, extra = rule.partition("|")
    minimum, _, maximum = bounds.partition(":")
    if extra and value == float(extra):
        return None
    if value < float(minimum) or (maximum and value > float(maximum)):
        allowed_range = f"from {minimum} to {maximum}" if maximum else f"at least {minimum}"
        return f"must be {allowed_range}{f', or {extra}' if extra else ''}"
    return None


def _check_list_rule(kind: str, allowed: Sequence[str], items: list[str]) -> str | None:
    if kind == "some-items" and not items:
        return "must not be empty"
    if "" in items:
        return "must not have empty items"
    if allowed and not all(item in allowed for item in items):
        return f"must be a list of {', '.join(allowed)}"
    return None


def is_offset_reset(text: str) -> bool:
    """Whether this is a valid initial offset of a share group: earliest, latest or by_duration (KIP-1106)."""
    if text in ("earliest", "latest"):
        return True
    duration = text.removeprefix(_BY_DURATION)
    if duration == text or not _DURATION.fullmatch(duration):
        return False
    total = 0.0
    for sign, integer_part, fraction, unit in _AMOUNT.findall(duration):
        amount = int(integer_part) + (float(f"0.{fraction}") if fraction else 0.0)
        total += (-amount if sign == "-" else amount) * _SECONDS[unit.upper()]
    return (-total if duration.startswith("-") else total) >= 0
