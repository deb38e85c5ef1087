"""Loads Settings from a properties file and the environment, and reports every problem with its location.

Errors and warnings show values only of quorumd's own keys, and none that may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from quorumd.config import kafka_keys
from quorumd.config.described import default_configs, given_configs
from quorumd.config.environment import misspelled, overrides
from quorumd.config.node_fields import PER_LISTENER_FIELDS
from quorumd.config.properties import Property, parse_properties
from quorumd.config.references import PROVIDERS_KEY, Providers, is_reference
from quorumd.config.security import ListenerProperty
from quorumd.config.security_fields import SecurityFields
from quorumd.config.setting import INTERNAL
from quorumd.config.settings import BROKER_ONLY_FIELDS, Settings, documentation, keys_of
from quorumd.errors import ConfigError
from quorumd.security.sasl.settings import MECHANISMS

PLACEHOLDERS = {
    "node_id": "2147483647",
    "log_directories": "placeholder",
    "listeners": "PLAINTEXT://placeholder:1",
}
"""Values for required settings that are missing or invalid, so that the other settings are checked together too."""

MAX_FILE_BYTES = 64 * 1024
MAX_FAULTS = 20
"""Checking stops after this many faults: the file is probably not a properties file of a node."""
MAX_UNKNOWN_KEYS = 50
"""Checking stops after this many unknown keys: the file is probably not a properties file of a node."""
SIMILARITY_CUTOFF = 0.8
"""Minimum similarity of an unknown key and a suggested key (difflib's ratio)."""
HINT = "`quorumd config docs` lists the known keys"

PROCESS_ROLES = "process.roles"
METADATA_LOG_DIR = "metadata.log.dir"
LOG_DIRS = ("log.dirs", "log.dir")
"""Without the broker role these are only defaults of metadata.log.dir."""

_SECRET = re.compile(r"password|secret|jaas|credential|token|(^|\.)key(\.|$)", re.IGNORECASE)
_LISTENER_KEY = re.compile(r"listener\.name\.([^.]+)\.(.+)")
_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}")


def load(path: str, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read a properties file, with overrides from the environment.

    Raises ConfigError with one line per problem, up to about MAX_FAULTS.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path}: cannot be read: {reason}; give the path of a properties file") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes; give the path of a properties file")
    return _Loader(path, parse_properties(text), environment).settings()


@dataclass(frozen=True, slots=True)
class _Fault:
    line: int
    text: str
    origin: str = ""


class _Loader:
    """Converts the properties of one file to Settings and collects all faults."""

    def __init__(self, path: str, properties: list[Property], environment: Mapping[str, str]) -> None:
        self._path = path
        self._field_of_key = {key: name for name in Settings.model_fields for key in keys_of(name)}
        self._public = [key for key in self._field_of_key if not key.startswith(INTERNAL)]
        overriding = overrides(self._public, environment)
        overridden = {self._field_of_key[given.key] for given in overriding}
        self._properties = [
            *(each for each in properties if self._field_of_key.get(each.key) not in overridden),
            *overriding,
        ]
        self._providers = Providers(environment)
        self._faults: list[_Fault] = []
        self._warnings: dict[str, str] = dict.fromkeys(misspelled(self._public, environment), "")
        self._unknown: dict[str, Property] = {}
        self._given: dict[str, Property] = {}
        self._listener_properties: list[ListenerProperty] = []
        roles = [given.value.lower() for given in self._properties if given.key == PROCESS_ROLES]
        self._is_broker = any("broker" in role for role in roles)
        self._drop_broker_directories()

    def settings(self) -> Settings:
        for given, wrong, allowed in self._providers.declare(self._properties):
            self._add_fault(given, wrong, allowed)
        for given in self._properties:
            if len(self._faults) >= MAX_FAULTS or len(self._unknown) > MAX_UNKNOWN_KEYS:
                self._faults.append(
                    _Fault(given.line, "too many problems; the rest of the file was not checked")
                )
                raise self._error()
            self._read(given)
        texts = {field: given.value for field, given in self._given.items()}
        settings = self._validate(texts)
        if settings is None or self._faults:
            raise self._error()
        # Secrets and references to them must not be visible in DescribeConfigs.
        public = (
            (given.key, given.value)
            for given in self._properties
            if given.key in self._field_of_key
            and not is_reference(given.value)
            and not _SECRET.search(given.key)
        )
        described = {
            "properties": given_configs(settings, self._field_of_key, public),
            "default_properties": default_configs(settings),
        }
        return settings.model_copy(update=described | {"file_warnings": self._file_warnings()})

    def _drop_broker_directories(self) -> None:
        """Ignore log.dirs and log.dir if metadata.log.dir is given, unless the node is a broker."""
        own = {given.value for given in self._properties if given.key == METADATA_LOG_DIR}
        if not own or self._is_broker:
            return
        for given in [given for given in self._properties if given.key in LOG_DIRS]:
            self._properties.remove(given)
            if given.value not in own:
                place = given.origin or f"{self._path}:{given.line}"
                self._warnings[f"{self._shown(given)} is ignored because {METADATA_LOG_DIR} is set"] = (
                    f"{place}: "
                )

    def _read(self, given: Property) -> None:
        field = self._field_of_key.get(given.key)
        listener_property = None if field is not None else self._parse_listener_key(given.key)
        if given.fault:
            self._add_fault(given, given.fault, "the escapes of Java's properties files")
        elif field is not None or listener_property is not None:
            try:
                value = self._providers.resolve(given.value)
            except ValueError as error:
                self._faults.append(_Fault(given.line, f"{given.key}: {error}", given.origin))
                return
            if value != given.value:
                given = given._replace(value=value, reference=given.value)
            if field is not None:
                self._set_field(field, given)
            elif listener_property is not None:
                self._set_listener_property(listener_property, given)
        elif given.key != PROVIDERS_KEY and not given.key.startswith(PROVIDERS_KEY + "."):
            self._read_unknown(given)

    def _parse_listener_key(self, key: str) -> ListenerProperty | None:
        """Parse a key such as listener.name.x.plain.sasl.jaas.config; None if it has no such prefix or setting."""
        found = _LISTENER_KEY.fullmatch(key)
        if found is None:
            return None
        mechanism, _, rest = found[2].partition(".")
        for name, setting_key in (("", found[2]), (mechanism.upper(), rest)):
            field = self._field_of_key.get(setting_key)
            is_security = field in SecurityFields.model_fields and (not name or name in MECHANISMS)
            if field is not None and (is_security or (field in PER_LISTENER_FIELDS and not name)):
                return ListenerProperty(found[1].upper(), name, field, None)
        return None

    def _set_listener_property(self, target: ListenerProperty, given: Property) -> None:
        kind = next(iter(Settings.model_fields[target.field].metadata))
        try:
            self._listener_properties.append(target._replace(value=kind.read(given.value.strip())))
        except ValueError as error:
            self._add_fault(given, str(error), kind.allowed)

    def _read_unknown(self, given: Property) -> None:
        """Handle a key that is not a setting of quorumd."""
        entry = kafka_keys.find(given.key)
        if entry is None:
            self._unknown.setdefault(given.key, given)
            close = self._close_match(given.key)
            if close:
                text = f"{self._shown(given)}: unknown key; did you mean {close}?"
                self._faults.append(_Fault(given.line, text))
        elif entry.refuses(given.value):
            text = f"{self._shown(given)}: {entry.reason}; remove it only if the quorum may run without it"
            self._faults.append(_Fault(given.line, text))
        elif not entry.is_refused:
            self._warnings.setdefault(f"{given.key} {entry.reason}", f"{self._path}:{given.line}: ")

    def _file_warnings(self) -> tuple[str, ...]:
        warnings = [f"{place}{text}" for text, place in self._warnings.items()]
        warnings += [
            f"{self._path}:{given.line}: {self._shown(given)} is unknown to quorumd and Kafka and is ignored"
            for given in self._unknown.values()
        ]
        return (*warnings, HINT) if self._unknown else tuple(warnings)

    def _error(self) -> ConfigError:
        ordered = sorted(self._faults, key=lambda fault: fault.line)
        lines = [self._with_location(fault) for fault in ordered]
        if self._unknown:
            lines.append(f"{self._path}: {HINT}")
        return ConfigError("\n".join(lines))

    def _set_field(self, field: str, given: Property) -> None:
        if field in BROKER_ONLY_FIELDS and not self._is_broker:
            place = given.origin or f"{self._path}:{given.line}"
            self._warnings[f"{given.key} has no effect without the broker role"] = f"{place}: "
        first = self._given.setdefault(field, given)
        if first is given or _value(field, first) == _value(field, given):
            return
        same_key = first.key == given.key
        place = first.origin or f"line {first.line}"
        wrong = f"differs from {self._shown(first)} on {place}"
        if not same_key:
            wrong += ", which is the same setting"
        self._faults.append(
            _Fault(given.line, f"{self._shown(given)}: {wrong}; keep one of them", given.origin)
        )

    def _validate(self, texts: dict[str, Any]) -> Settings | None:
        """Return the settings, or None after adding faults.

        If values are invalid, the others are validated again without them, which finds contradictions among these.
        """
        try:
            return Settings.model_validate(texts | {"listener_properties": tuple(self._listener_properties)})
        except ValidationError as error:
            bad_fields = self._add_validation_faults(error, ignored=frozenset())
        if bad_fields:
            sound = {field: text for field, text in texts.items() if field not in bad_fields}
            stand_ins = {field: text for field, text in PLACEHOLDERS.items() if field in bad_fields}
            try:
                Settings.model_validate(sound | stand_ins)
            except ValidationError as error:
                self._add_validation_faults(error, ignored=bad_fields)
        return None

    def _add_validation_faults(self, error: ValidationError, ignored: frozenset[str]) -> frozenset[str]:
        """Return the fields with invalid values. Problems that involve an `ignored` field are not reported."""
        bad_fields = set()
        for details in error.errors():
            context = details.get("ctx", {})
            if details["type"] == "dependent":
                for problem in context["problems"]:
                    if ignored.isdisjoint(problem.fields):
                        self._add_field_fault(problem.fields[0], problem.wrong, problem.allowed)
                continue
            field = str(details["loc"][0])
            bad_fields.add(field)
            if details["type"] == "missing":
                self._add_field_fault(field, "is missing", _allowed(field))
            else:
                self._add_field_fault(field, context["wrong"], context["allowed"])
        return frozenset(bad_fields)

    def _add_field_fault(self, field: str, wrong: str, allowed: str) -> None:
        given = self._given.get(field)
        if given is not None:
            self._add_fault(given, wrong, allowed)
        else:
            key, *others = keys_of(field)
            names = f"{key} (or {', '.join(others)})" if others else key
            self._faults.append(_Fault(0, f"{names}: {wrong}; allowed: {allowed}"))

    def _add_fault(self, given: Property, wrong: str, allowed: str) -> None:
        if given.reference:
            wrong = "the referenced value is invalid"  # the value may be a secret
        text = f"{self._shown(given)}: {wrong}; allowed: {allowed}"
        self._faults.append(_Fault(given.line, text, given.origin))

    def _with_location(self, fault: _Fault) -> str:
        if fault.origin:
            return f"environment variable {fault.origin}: {fault.text}"
        # A missing setting has no line.
        return f"{self._path}:{fault.line}: {fault.text}" if fault.line else f"{self._path}: {fault.text}"

    def _close_match(self, key: str) -> str:
        from difflib import get_close_matches  # slow to import, and not needed for a correct file

        close = get_close_matches(key.lower(), self._public, n=1, cutoff=SIMILARITY_CUTOFF)
        return close[0] if close else ""

    def _shown(self, given: Property) -> str:
        """The key, with its value or reference if that is not secret."""
        if not _KEY.fullmatch(given.key):
            return "invalid key"
        if given.key not in self._field_of_key or _SECRET.search(given.key):
            return given.key
        return f"{given.key}={given.reference or given.value}"


def _value(field: str, given: Property) -> object:
    """The parsed value for comparison, or the text if it is invalid, which is reported separately."""
    kind = next(iter(Settings.model_fields[field].metadata))
    try:
        return kind.read(given.value.strip())
    except ValueError:
        return given.value


def _allowed(field: str) -> str:
    keys = keys_of(field)
    return next(row.allowed for row in documentation() if row.keys == keys)
