"""From a properties file to Settings: which key is which setting; every problem with file and line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from quorumd.config.properties import Property, parse_properties
from quorumd.config.settings import INTERNAL, Settings, documentation, keys_of
from quorumd.errors import ConfigError

# Stand in for a required setting that is missing or bad, so that the rest of the file is still checked.
PLACEHOLDERS = {
    "node_id": "2147483647",
    "data_directory": "placeholder",
    "listener": "PLAINTEXT://placeholder:1",
}

MAX_FILE_BYTES = 64 * 1024
MOST_FAULTS = 20
"""More are not looked for: it is another kind of file then."""


def load(path: str) -> Settings:
    """Read one properties file. Raises ConfigError with one line a problem, all problems of the file unless there
    are more than MOST_FAULTS."""
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
    return _Loading(path, parse_properties(text)).settings()


@dataclass(frozen=True, slots=True)
class _Fault:
    line: int
    text: str


class _Loading:
    """One file on its way to Settings; gathers faults instead of stopping at the first."""

    def __init__(self, path: str, properties: list[Property]) -> None:
        self._path = path
        self._properties = properties
        self._field_of_key = {key: name for name in Settings.model_fields for key in keys_of(name)}
        self._faults: list[_Fault] = []
        self._given: dict[str, Property] = {}

    def settings(self) -> Settings:
        for given in self._properties:
            if len(self._faults) == MOST_FAULTS:
                self._faults.append(_Fault(given.line, "and perhaps more: the file is not read on"))
                raise self._refusal()
            if given.fault:
                self._add_fault(given, given.fault, "Java's escapes")
            elif given.key not in self._field_of_key:
                self._faults.append(_Fault(given.line, f"{_shown(given)}: {self._unknown_key(given.key)}"))
            else:
                self._take(self._field_of_key[given.key], given)
        texts = {field: given.value for field, given in self._given.items()}
        settings = self._validate(texts)
        if settings is None or self._faults:
            raise self._refusal()
        as_given = tuple((given.key, given.value) for given in self._properties)
        return settings.model_copy(update={"properties": as_given})

    def _refusal(self) -> ConfigError:
        ordered = sorted(self._faults, key=lambda fault: fault.line)
        return ConfigError("\n".join(self._located(fault) for fault in ordered))

    def _take(self, field: str, given: Property) -> None:
        first = self._given.setdefault(field, given)
        if first is given or _value(field, first) == _value(field, given):
            return
        same_key = first.key == given.key
        wrong = f"differs from {_shown(first)} on line {first.line}"
        if not same_key:
            wrong += ", and both keys name one setting"
        self._faults.append(_Fault(given.line, f"{_shown(given)}: {wrong}; keep one of them"))

    def _validate(self, texts: dict[str, str]) -> Settings | None:
        """The settings, or None and faults. A value that is wrong must not hide others that do not fit."""
        try:
            return Settings.model_validate(texts)
        except ValidationError as error:
            bad_fields = self._add_faults_of(error, ignored=frozenset())
        if bad_fields:
            sound = {field: text for field, text in texts.items() if field not in bad_fields}
            stand_ins = {field: text for field, text in PLACEHOLDERS.items() if field not in sound}
            try:
                Settings.model_validate(sound | stand_ins)
            except ValidationError as error:
                self._add_faults_of(error, ignored=bad_fields)
        return None

    def _add_faults_of(self, error: ValidationError, ignored: frozenset[str]) -> frozenset[str]:
        """Returns the fields that are wrong by themselves. What involves an `ignored` field is not told."""
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
        self._faults.append(_Fault(given.line, f"{_shown(given)}: {wrong}; allowed: {allowed}"))

    def _located(self, fault: _Fault) -> str:
        # A setting that is not there has no line.
        return f"{self._path}:{fault.line}: {fault.text}" if fault.line else f"{self._path}: {fault.text}"

    def _unknown_key(self, key: str) -> str:
        from difflib import get_close_matches  # a daemon with a correct file never needs it

        public = [known for known in self._field_of_key if not known.startswith(INTERNAL)]
        close = get_close_matches(key.lower(), public, n=1, cutoff=0.75)
        if close:
            return f"unknown key; did you mean {close[0]}?"
        return f"unknown key; remove it. Known keys: {', '.join(sorted(public))}"


def _shown(given: Property) -> str:
    return f"{given.key}={given.value}"


def _value(field: str, given: Property) -> object:
    """The value for comparison, or the text where it is none (which is told as its own fault)."""
    kind = next(iter(Settings.model_fields[field].metadata))
    try:
        return kind.read(given.value.strip())
    except ValueError:
        return given.value


def _allowed(field: str) -> str:
    keys = keys_of(field)
    return next(row.allowed for row in documentation() if row.keys == keys)
