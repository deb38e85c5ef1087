"""Kinds of values: each parses the text of a property and describes its allowed values.

A `Kind` annotates a field of the pydantic model: `Annotated[int, duration("10ms", "1h")]`. Values are texts of a
properties file; a number may also be an int.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from quorumd.config.jaas import parse_jaas
from quorumd.ids import Endpoint
from quorumd.security.authorizer import parse_super_users
from quorumd.security.principals import PrincipalMapper
from quorumd.security.sasl.settings import MECHANISMS as MECHANISM_NAMES
from quorumd.security.tls import PROTOCOLS as TLS_VERSIONS

T = TypeVar("T")

MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
BYTES = {"b": 1, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}
PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITHOUT_TLS = (PLAINTEXT, "SASL_PLAINTEXT")
WILDCARD_HOSTS = ("", "0.0.0.0", "::")

_QUANTITY = re.compile(r"([0-9]+)\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_HOST = r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]*))"
_ADDRESS = re.compile(_HOST + r":(?P<port>[0-9]{1,5})")
_LISTENER = re.compile(r"(?P<listener>[A-Za-z0-9._-]+)://" + _HOST + r":(?P<port>[0-9]{1,5})")


class VoterAddress(NamedTuple):
    """One entry of `quorum.voters`. If it is only an id, as in the draft, `host` is "" and `port` is 0."""

    id: int
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value. `read` parses a text, or raises ValueError with the problem; `allowed` completes the error."""

    name: str
    allowed: str
    read: Callable[[str], T]

    def validate(self, value: object) -> T:
        """Parse a value. Raises PydanticCustomError with `wrong` and `allowed` in its context."""
        try:
            return self.read(value.strip() if isinstance(value, str) else str(value))
        except ValueError as error:
            context = {"wrong": str(error), "allowed": self.allowed}
            raise PydanticCustomError("bad_value", "{wrong}; allowed: {allowed}", context) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.validate)


def _read_quantity(text: str, units: dict[str, int], plain: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError("not a number with an optional unit" if text else "the value is empty")
    unit = match[2].lower() or plain
    if unit not in units:
        raise ValueError(f"{match[2]!r} is not a unit")
    return int(match[1]) * units[unit]


def _within(value: int, minimum: int, maximum: int) -> int:
    if value < minimum:
        raise ValueError("too small")
    if value > maximum:
        raise ValueError("too large")
    return value


def integer(minimum: int, maximum: int) -> Kind[int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII):
            raise ValueError("not an integer" if text else "the value is empty")
        return _within(int(text), minimum, maximum)

    return Kind("integer", f"an integer from {minimum} to {maximum}", read)


def duration(minimum: str, maximum: str) -> Kind[int]:
    """A duration, parsed to milliseconds. A number without a unit is milliseconds."""
    low, high = (_read_quantity(limit, MILLISECONDS, "ms") for limit in (minimum, maximum))
    allowed = f"milliseconds, or a number with ms, s, m, h or d, from {minimum} to {maximum}"
    return Kind(
        "duration", allowed, lambda text: _within(_read_quantity(text, MILLISECONDS, "ms"), low, high)
    )


def size(minimum: str, maximum: str) -> Kind[int]:
    """A size, parsed to bytes. `k`, `m` and `g` mean KiB, MiB and GiB; the ambiguous `MB` is rejected."""
    low, high = (_read_quantity(limit, BYTES, "b") for limit in (minimum, maximum))
    allowed = f"bytes, or a number with KiB, MiB or GiB (k, m, g), from {minimum} to {maximum}"
    return Kind("size", allowed, lambda text: _within(_read_quantity(text, BYTES, "b"), low, high))


def or_any(kind: Kind[int]) -> Kind[int]:
    """The values of `kind`, and -1 for no limit."""
    return Kind(
        kind.name, f"{kind.allowed}; or -1 for no limit", lambda text: -1 if text == "-1" else kind.read(text)
    )


def or_empty(kind: Kind[int]) -> Kind[int | None]:
    """The values of `kind`, and None for an empty text."""
    return Kind(kind.name, f"{kind.allowed}; or empty", lambda text: kind.read(text) if text else None)


def choice(*choices: str) -> Kind[str]:
    """One of `choices`, in any case; parsed to the spelling given here."""
    by_lower_case = {each.lower(): each for each in choices}

    def read(text: str) -> str:
        if text.lower() not in by_lower_case:
            raise ValueError("not one of the choices" if text else "the value is empty")
        return by_lower_case[text.lower()]

    return Kind("choice", ", ".join(choices), read)


def _read_switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return text.lower() == "true"


SWITCH = Kind("switch", "true, false", _read_switch)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _read_directories(text: str) -> tuple[str, ...]:
    directories = _items(text)
    if "\0" in text:
        raise ValueError("contains a NUL character")
    if len(set(directories)) < len(directories):
        raise ValueError("lists a directory twice")
    return tuple(directories)


def _read_directory(text: str) -> str:
    directories = _read_directories(text)
    if len(directories) > 1:
        raise ValueError(f"{len(directories)} directories; the metadata log needs exactly one")
    return directories[0] if directories else ""


def _host_and_port(match: re.Match[str], *, lowest_port: int) -> tuple[str, int]:
    port = int(match["port"])
    if not lowest_port <= port <= 65535:
        raise ValueError(f"{port} is not a valid port")
    return match["ipv6"] or match["name"] or "", port


def _read_listener(text: str) -> Endpoint:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a listener")
    return Endpoint(match["listener"].upper(), *_host_and_port(match, lowest_port=0))


def _read_listeners(text: str) -> tuple[Endpoint, ...]:
    if not _items(text):
        raise ValueError("the value is empty")
    return _read_named_endpoints(text)


def _read_named_endpoints(text: str) -> tuple[Endpoint, ...]:
    endpoints = tuple(_read_listener(item) for item in _items(text))
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is listed twice")
    return endpoints


def _read_advertised_listeners(text: str) -> tuple[Endpoint, ...]:
    endpoints = _read_named_endpoints(text)
    if any(endpoint.host in WILDCARD_HOSTS for endpoint in endpoints):
        raise ValueError("other nodes cannot connect to a wildcard address")
    return endpoints


def _read_text(text: str) -> str:
    if any(ord(character) < 32 for character in text):
        raise ValueError("contains a control character")
    return text


def _read_address(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    host, port = _host_and_port(match, lowest_port=1) if match else ("", 0)
    if not host:
        raise ValueError(f"{text!r} is not host:port")
    return host, port


def _read_addresses(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(_read_address(item) for item in _items(text))


def _read_voter(item: str) -> VoterAddress:
    node_id, at, address = item.partition("@")
    if not re.fullmatch(r"[0-9]{1,10}", node_id, re.ASCII) or int(node_id) > 2**31 - 1:
        raise ValueError(f"{node_id!r} is not a node id")
    return VoterAddress(int(node_id), *(_read_address(address) if at else ()))


def _read_voters(text: str) -> tuple[VoterAddress, ...]:
    voters = tuple(_read_voter(item) for item in _items(text))
    seen: set[int] = set()
    for voter in voters:
        if voter.id in seen:
            raise ValueError(f"voter {voter.id} is listed twice")
        seen.add(voter.id)
    return tuple(sorted(voters))


def _read_optional_address(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("not host:port")
    return _host_and_port(match, lowest_port=0)


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(name.upper() for name in _items(text))


def _read_protocol_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in _items(text):
        name, colon, protocol = item.partition(":")
        if not name or not colon or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ValueError(f"{item!r} is not NAME:PROTOCOL")
        pairs.append((name.upper(), protocol.upper()))
    return tuple(pairs)


def _read_roles(text: str) -> tuple[str, ...]:
    roles = tuple(sorted({role.lower() for role in _items(text)}))
    for role in roles:
        if role not in ("broker", "controller"):
            raise ValueError(f"{role!r} is not a role")
    return roles


def _read_mechanism(text: str) -> str:
    if text and text.upper() not in MECHANISM_NAMES:
        raise ValueError(f"{text!r} is not a supported mechanism")
    return text.upper()


def _read_mechanisms(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_read_mechanism(item) for item in _items(text)))


def _read_tls_protocols(text: str) -> tuple[str, ...]:
    names = tuple(_items(text))
    if not set(names) & set(TLS_VERSIONS):
        raise ValueError("contains no supported version")
    return tuple(name for name in names if name in TLS_VERSIONS)


def _read_pem(text: str) -> str:
    if text and "-----BEGIN " not in text:
        raise ValueError("not PEM")
    return text


def _read_jaas(text: str) -> str:
    if text:
        parse_jaas(text)
    return text


def _read_mapping_rules(text: str) -> str:
    PrincipalMapper(text)
    return text


def _read_authorizer(text: str) -> str:
    if text not in ("", STANDARD_AUTHORIZER):
        raise ValueError("quorumd cannot run authorizers written in Java")
    return text


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Kafka's class whose rules `quorumd.security.authorizer` implements."""
AUTHORIZER = Kind("authorizer", f"{STANDARD_AUTHORIZER}, or empty", _read_authorizer)
PRINCIPALS = Kind("principals", "principals such as User:alice, separated by semicolons", parse_super_users)
TEXT = Kind("text", "any text without control characters", _read_text)
DIRECTORY = Kind(
    "directory", "one directory, absolute or relative to the daemon's working directory", _read_directory
)
DIRECTORIES = Kind(
    "directories",
    "directories separated by commas, absolute or relative to the daemon's working directory",
    _read_directories,
)
LISTENERS = Kind(
    "listeners",
    "NAME://host:port such as PLAINTEXT://127.0.0.1:9092, separated by commas; the host may be empty or a wildcard "
    "address, the port 0 for any free port",
    _read_listeners,
)
ADVERTISED_LISTENERS = Kind(
    "listeners",
    "NAME://host:port that other nodes can reach, separated by commas, or empty",
    _read_advertised_listeners,
)
ADDRESSES = Kind("addresses", "host:port,host:port,... with ports from 1 to 65535", _read_addresses)
VOTERS = Kind("voters", "ids such as 1,2,3 or id@host:port,id@host:port,...", _read_voters)
OPTIONAL_ADDRESS = Kind(
    "address", "host:port, with port 0 for any free port, or empty", _read_optional_address
)
NAMES = Kind("names", "listener names separated by commas", _read_names)
PROTOCOL_MAP = Kind(
    "map", f"NAME:PROTOCOL,... where PROTOCOL is one of {', '.join(SECURITY_PROTOCOLS)}", _read_protocol_map
)
ROLES = Kind(
    "roles", "controller, broker, or both separated by a comma, or empty for controller", _read_roles
)
TEXTS = Kind("texts", "texts separated by commas, or empty", lambda text: tuple(_items(text)))
MECHANISM = Kind("mechanism", f"one of {', '.join(MECHANISM_NAMES)}, or empty", _read_mechanism)
MECHANISMS = Kind("mechanisms", f"any of {', '.join(MECHANISM_NAMES)}, separated by commas", _read_mechanisms)
TLS_PROTOCOLS = Kind(
    "versions", f"{', '.join(TLS_VERSIONS)}; other versions are ignored", _read_tls_protocols
)
PEM = Kind("PEM", "PEM text, in which \\n may stand for a line break, or empty", _read_pem)
JAAS = Kind(
    "login",
    'org.apache.kafka.common.security.<...>LoginModule required <option>="<value>" ...;, or empty',
    _read_jaas,
)
MAPPING_RULES = Kind(
    "rules", "RULE:<pattern>/<replacement>/[LU] and DEFAULT, separated by commas", _read_mapping_rules
)
