"""References `${provider:path:key}` in values: Kafka's config providers, which keep secrets out of properties files.

    ${file:/run/secrets/node.properties:key}    a key of another properties file
    ${dir:/run/secrets:name}                    the content of a file in a directory
    ${env:NAME}                                 an environment variable

These three providers need no declaration. `config.providers=vault` and `config.providers.vault.class=...` declare one
of Kafka's three classes under another name, and `config.providers.<name>.param.allowed.paths` and
`.allowlist.pattern` restrict what a provider reads. Errors contain the reference, never its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from quorumd.config.properties import Property, parse_properties

PROVIDERS_KEY = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
CLASSES = {
    _PACKAGE + "FileConfigProvider": "file",
    _PACKAGE + "DirectoryConfigProvider": "dir",
    _PACKAGE + "EnvVarConfigProvider": "env",
}
PARAMETERS = ("allowed.paths", "allowlist.pattern")
MAX_FILE_BYTES = 64 * 1024

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")


@dataclass(slots=True)
class _Provider:
    kind: str
    allowed_paths: tuple[str, ...] = ()
    allowed_names: str = ""


@dataclass(slots=True)
class Providers:
    """The config providers that the values of a file can refer to."""

    environment: Mapping[str, str]
    _by_name: dict[str, _Provider] = field(
        default_factory=lambda: {kind: _Provider(kind) for kind in CLASSES.values()}
    )

    def declare(self, properties: Iterable[Property]) -> list[tuple[Property, str, str]]:
        """Process the declarations of providers. Returns the invalid ones with the problem and the allowed values."""
        faults = []
        by_key = {given.key: given for given in properties}
        names = by_key.get(PROVIDERS_KEY)
        for name in (each.strip() for each in (names.value if names else "").split(",")):
            declared = by_key.get(f"{PROVIDERS_KEY}.{name}.class")
            if declared is not None:
                kind = CLASSES.get(declared.value)
                if kind is None:
                    faults.append((declared, "not a supported provider", ", ".join(CLASSES)))
                    continue
                self._by_name[name] = _Provider(kind)
            elif name and name not in self._by_name and names is not None:
                faults.append((names, f"{name} has no class", f"names with {PROVIDERS_KEY}.<name>.class"))
        for given in by_key.values():
            faults += self._set_parameter(given)
        return faults

    def _set_parameter(self, given: Property) -> list[tuple[Property, str, str]]:
        name, dot, parameter = given.key.removeprefix(PROVIDERS_KEY + ".").partition(".param.")
        provider = self._by_name.get(name)
        if not dot or provider is None:
            return []
        if parameter == "allowed.paths":
            provider.allowed_paths = tuple(path.strip() for path in given.value.split(",") if path.strip())
        elif parameter == "allowlist.pattern":
            try:
                re.compile(given.value)
            except re.error as error:
                return [(given, f"not a regular expression: {error.msg}", "a regular expression")]
            provider.allowed_names = given.value
        else:
            return [(given, "not a parameter of a provider", ", ".join(PARAMETERS))]
        return []

    def resolve(self, value: str) -> str:
        """Replace the references in a value. Raises ValueError with the reference and why it cannot be resolved."""
        return _REFERENCE.sub(
            lambda match: self._look_up(match[0], match[1], match[2] or "", match[3]), value
        )

    def _look_up(self, reference: str, name: str, path: str, key: str) -> str:
        provider = self._by_name.get(name)
        if provider is None:
            raise ValueError(
                f"{reference}: unknown provider {name!r}; expected one of {', '.join(self._by_name)}"
            )
        try:
            if provider.kind == "env":
                found = self._variable(provider, key)
            else:
                found = _content(provider, path, key)
        except OSError as error:
            raise ValueError(f"{reference}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{reference}: not UTF-8 text") from None
        except LookupError as error:
            raise ValueError(f"{reference}: {error.args[0]}") from None
        return found

    def _variable(self, provider: _Provider, name: str) -> str:
        if provider.allowed_names and not re.fullmatch(provider.allowed_names, name):
            raise LookupError("allowlist.pattern does not allow this variable")
        if name not in self.environment:
            raise LookupError("the environment variable is not set")
        return self.environment[name]


def is_reference(value: str) -> bool:
    """Whether a value contains a reference."""
    return _REFERENCE.search(value) is not None


def _content(provider: _Provider, path: str, key: str) -> str:
    """Return a key of a properties file, or the content of a file. Raises LookupError with the reason."""
    file = Path(path)
    if provider.kind == "dir":
        if "/" in key or key in ("", ".", ".."):
            raise LookupError("the key is not a file name")
        file /= key
    if provider.allowed_paths and not any(
        file.resolve().is_relative_to(Path(allowed).resolve()) for allowed in provider.allowed_paths
    ):
        raise LookupError("allowed.paths does not allow this path")
    with file.open("rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise LookupError(f"larger than {MAX_FILE_BYTES} bytes")
    text = data.decode()
    if provider.kind == "dir":
        return text.rstrip("\r\n")
    found = next((each for each in reversed(parse_properties(text)) if each.key == key), None)
    if found is None or found.fault:
        raise LookupError(
            "the file has no such key" if found is None else "the value in the file has an invalid escape"
        )
    return found.value
