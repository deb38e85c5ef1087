"""Parses JAAS configuration strings, the values of `sasl.jaas.config`: one login module and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_PACKAGE: Final = r"org\.apache\.kafka\.common\.security\."
_HEAD: Final = re.compile(
    rf"\s*{_PACKAGE}[a-z.]+\.([A-Za-z]+)LoginModule\s+(?:required|requisite|sufficient|optional)\b"
)
_OPTION: Final = re.compile(r'\s+([A-Za-z0-9_.$@%/+-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))', re.DOTALL)
_END: Final = re.compile(r"\s*;?\s*")
_MODULES: Final = ("Plain", "Scram", "OAuthBearer")
_USER: Final = "user_"


class JaasConfig(NamedTuple):
    """A login module and its options; `module` is Plain, Scram or OAuthBearer."""

    module: str
    options: Mapping[str, str]

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users that a PLAIN listener accepts, by name (options `user_<name>`)."""
        return {
            name.removeprefix(_USER): value for name, value in self.options.items() if name.startswith(_USER)
        }

    @property
    def is_token(self) -> bool:
        """Whether username and password are those of a delegation token."""
        return self.options.get("tokenauth", "").lower() == "true"


def parse_jaas(text: str) -> JaasConfig:
    """Parse one login module. Raises ValueError, whose message does not contain the text."""
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("does not begin with one of Kafka's login modules and `required`")
    if head[1] not in _MODULES:
        raise ValueError(f"{head[1]}LoginModule is not supported")
    options: dict[str, str] = {}
    position = head.end()
    while (option := _OPTION.match(text, position)) is not None:
        quoted = option[2]
        value = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else option[3]
        options[option[1]] = value
        position = option.end()
    if _END.fullmatch(text, position) is None:
        raise ValueError('an option is not name="value", or there is more than one login module')
    return JaasConfig(head[1], options)
