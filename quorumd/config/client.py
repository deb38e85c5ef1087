"""Kafka's client properties: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config` and `ssl.*`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from quorumd.config.properties import parse_properties
from quorumd.config.references import Providers
from quorumd.config.security import ListenerProperties
from quorumd.config.security_fields import SecurityFields
from quorumd.config.values import SECURITY_PROTOCOLS
from quorumd.errors import ConfigError
from quorumd.security.sasl.settings import MECHANISMS
from quorumd.security.tls import TlsSettings

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"


class ClientProperties(NamedTuple):
    """TLS and SASL of a client, None if its protocol does not use them.

    `login`: the SASL mechanism, the options of the login module, and the URL of tokens, "" unless it is OAUTHBEARER.
    """

    tls: TlsSettings | None
    login: tuple[str, Mapping[str, str], str] | None


def load_client(path: str, environment: Mapping[str, str]) -> ClientProperties:
    """Read a client's properties file. Keys that do not concern security are ignored. Raises ConfigError."""
    try:
        properties = parse_properties(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    providers = Providers(dict(environment))
    providers.declare(properties)
    field_of_key = {
        key: name
        for name, field in SecurityFields.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
        for key in field.json_schema_extra["keys"]  # type: ignore[union-attr]  # JSON typing
    }
    texts: dict[str, str] = {}
    known: dict[str, str] = {}
    for given in properties:
        if given.key not in field_of_key and given.key not in (_PROTOCOL, _MECHANISM):
            continue
        try:
            value = providers.resolve(given.value)
        except ValueError as error:
            raise ConfigError(f"{path}:{given.line}: {given.key}: {error}") from None
        if given.key in field_of_key:
            texts[field_of_key[str(given.key)]] = value
        else:
            known[given.key] = value.upper()
    try:
        fields = SecurityFields.model_validate(texts)
    except ValidationError as error:
        details = error.errors()[0]
        wrong = details.get("ctx", {}).get("wrong", details["msg"])
        key = next(key for key, name in field_of_key.items() if name == details["loc"][0])
        raise ConfigError(f"{path}: {key}: {wrong}") from None
    return _security(path, known.get(_PROTOCOL, "PLAINTEXT"), known.get(_MECHANISM, ""), fields)


def _security(path: str, protocol: str, mechanism: str, fields: SecurityFields) -> ClientProperties:
    if protocol not in SECURITY_PROTOCOLS:
        names = ", ".join(SECURITY_PROTOCOLS)
        raise ConfigError(f"{path}: {_PROTOCOL}={protocol} is unknown; allowed: {names}")
    if protocol.startswith("SASL") and mechanism not in MECHANISMS:
        wrong = f"{_MECHANISM}={mechanism} is not supported" if mechanism else f"{_MECHANISM} is missing"
        raise ConfigError(f"{path}: {wrong}; allowed: {', '.join(MECHANISMS)}")
    try:
        found = ListenerProperties("", fields, ()).security(protocol, mechanism, accepts=False)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    login = found.login
    if login is None:
        return ClientProperties(found.tls, None)
    return ClientProperties(found.tls, (login.mechanism, login.jaas.options, login.token_url))
