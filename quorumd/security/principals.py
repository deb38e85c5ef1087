"""The principal of a client certificate: its distinguished name as Java prints it, and `ssl.principal.mapping.rules`.

Kafka's rules and super users are written against Java's form of RFC 2253: types without a keyword there appear as
object identifiers with the value in hex, and `=` and `#` are escaped everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from quorumd.errors import MalformedMessage
from quorumd.ports import ANONYMOUS
from quorumd.security.sasl.exchange import user

MAX_NAME_BYTES: Final = 2048
MAX_NAME_PARTS: Final = 32
"""A rule with lazy groups takes time by a power of the number of parts: 11 s for 1,000 parts, 1 ms for 32."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString, BMPString."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')

_RULE_TEXT: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE_TEXT})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE_TEXT)
_GROUP: Final = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)


class _Value(NamedTuple):
    """One DER value: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def distinguished_name(der: bytes) -> str:
    """Format a DER-encoded Name as Java's `X500Principal.getName` does. Raises MalformedMessage."""
    if len(der) > MAX_NAME_BYTES:
        raise MalformedMessage(
            f"the name of the certificate has {len(der)} bytes, more than {MAX_NAME_BYTES}"
        )
    parts = [[_attribute(each) for each in _values(part.content)] for part in _values(_single(der).content)]
    if sum(map(len, parts)) > MAX_NAME_PARTS:
        raise MalformedMessage(f"the name of the certificate has more than {MAX_NAME_PARTS} parts")
    return ",".join("+".join(part) for part in reversed(parts))


def _single(der: bytes) -> _Value:
    values = list(_values(der))
    if len(values) != 1:
        raise MalformedMessage("the name of the certificate is malformed")
    return values[0]


def _values(data: bytes) -> Iterator[_Value]:
    position = 0
    while position < len(data):
        start = position
        tag, size = data[position : position + 2].ljust(2, b"\xff")
        position += 2
        if size >= 0x80:
            size_bytes = size & 0x7F
            if not 1 <= size_bytes <= 4:
                raise MalformedMessage("the name of the certificate is malformed")
            size = int.from_bytes(data[position : position + size_bytes])
            position += size_bytes
        end = position + size
        if end > len(data):
            raise MalformedMessage("the name of the certificate is malformed")
        yield _Value(tag, data[position:end], data[start:end])
        position = end


def _attribute(pair: _Value) -> str:
    parts = list(_values(pair.content))
    if len(parts) != 2:
        raise MalformedMessage("the name of the certificate is malformed")
    identifier, value = parts
    oid = _object_identifier(identifier.content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode(errors='replace'))}"


def _object_identifier(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = numbers[0] if numbers else 0
    root = min(first // 40, 2)
    return ".".join(map(str, (root, first - 40 * root, *numbers[1:])))


def _escape(text: str) -> str:
    escaped = "".join(
        f"\\{character}" if character in _ESCAPED else "\\00" if character == "\0" else character
        for character in text
    )
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - max(len(escaped.rstrip(" ")), leading)
    return "\\ " * leading + escaped[leading : len(escaped) - trailing] + "\\ " * trailing


class _Rule(NamedTuple):
    """One rule; DEFAULT has no pattern."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the name of the principal, None if the rule does not match."""
        pattern = self.pattern
        if pattern is None:
            return name
        if pattern.fullmatch(name) is None:
            return None
        mapped = pattern.sub(lambda match: _expand(self.replacement, match), name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Expand a replacement as Java does: `$12` is group 1 followed by a 2 if there are fewer than 12 groups."""
    groups = match.re.groups

    def fill(part: re.Match[str]) -> str:
        if part[1] is not None:
            return part[1]
        digits = part[2]
        used = len(digits)
        while used > 1 and int(digits[:used]) > groups:
            used -= 1
        number = int(digits[:used])
        return f"${digits}" if number > groups else (match[number] or "") + digits[used:]

    return _GROUP.sub(fill, replacement)


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`; the first match applies."""

    def __init__(self, rules: str) -> None:
        """Parse the rules. Raises ValueError if one is invalid."""
        split = [found[1] for found in _SPLITTER.finditer(rules.strip())]
        self._rules = [rule for text in split if (rule := _parse(text)) is not None]

    def principal(self, name_der: bytes | None) -> str:
        """Return the principal of a certificate by its DER-encoded subject; ANONYMOUS without a certificate.

        Raises MalformedMessage if no rule matches.
        """
        if name_der is None:
            return ANONYMOUS
        name = distinguished_name(name_der)
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return user(mapped)
        raise MalformedMessage(f"no rule of ssl.principal.mapping.rules matches {name!r}")


def _parse(text: str) -> _Rule | None:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"{text!r} is not a rule")
    if match[1] is not None:
        return _Rule()
    if match[2] is None:
        return None
    try:
        return _Rule(re.compile(match[2]), match[3], match[4])
    except re.error as error:
        raise ValueError(f"{match[2]!r} is not a regular expression: {error.msg}") from None
