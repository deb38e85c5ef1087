"""Distinguished names as Java 17 prints them (X500Principal.getName), and ssl.principal.mapping.rules."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage
from quorumd.ports import ANONYMOUS
from quorumd.security.principals import PrincipalMapper, distinguished_name

JAVA = {
    "3044310b300906035504061302444531163014060355040a0c0d4578616d706c652c20496e632e310c300a060355040b0c034f7073310f300d"
    "06035504030c066e6f64652d31": "CN=node-1,OU=Ops,O=Example\\, Inc.,C=DE",
    "301c311a301806035504030c11612b6222635c643c653e663b673d682369": 'CN=a\\+b\\"c\\\\d\\<e\\>f\\;g\\=h\\#i',
    "30173115301306035504030c0c206c65616420747261696c20": "CN=\\ lead trail\\ ",
    "300d310b300906035504030c022020": "CN=\\ \\ ",
    "302c311a301806092a864886f70d010901160b6140622e6578616d706c65310e300c06035504030c056b61666b61": (
        "CN=kafka,1.2.840.113549.1.9.1=#160b6140622e6578616d706c65"
    ),
    "306931173015060a0992268993f22c64011916076578616d706c6531133011060a0992268993f22c6401191603636f6d31123010060a099226"
    "8993f22c6401010c027531310c300a06035504090c03532031310a300806035504070c014c310b300906035504080c025354": (
        "ST=ST,L=L,STREET=S 1,UID=u1,DC=com,DC=example"
    ),
    "30283126300806035504030c01783008060355040b0c0179301006092a864886f70d0109011603654078": (
        "CN=x+OU=y+1.2.840.113549.1.9.1=#1603654078"
    ),
    "30223114300806035504030c01783008060355040b0c0179310a3008060355040a0c017a": "O=z,CN=x+OU=y",
    "30123110300e06042a0304050c06637573746f6d": "1.2.3.4.5=#0c06637573746f6d",
    "3010310e300c06035504030c056e756c0078": "CN=nul\\00x",
    "30153113301106035504031e0a0062006d0070002000fc": "CN=\\00b\\00m\\00p\\00 \\00\ufffd",
    "3000": "",
}
"""Names in DER, and what Java printed for them."""


@pytest.mark.parametrize(("der", "expected"), JAVA.items())
def test_names_are_those_of_java(der: str, expected: str) -> None:
    assert distinguished_name(bytes.fromhex(der)) == expected


@pytest.mark.parametrize(
    "der", ["", "30", "3005", "300131", "3084ffffffff", "308005", "30003000", "3004310230003000"]
)
def test_malformed_name_is_rejected(der: str) -> None:
    with pytest.raises(MalformedMessage):
        distinguished_name(bytes.fromhex(der))


def name_of(parts: int, value: bytes = b"x") -> bytes:
    """A name with this many organizational units."""
    unit = _der(0x31, _der(0x30, b"\x06\x03\x55\x04\x0b" + _der(0x0C, value)))
    return _der(0x30, unit * parts)


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + len(content).to_bytes(2) + content


def test_name_with_many_parts_is_rejected() -> None:
    """A rule with lazy groups takes time by a power of the number of parts: 11 s for 1,000 of them."""
    assert distinguished_name(name_of(32)) == ",".join(["OU=x"] * 32)
    with pytest.raises(MalformedMessage, match="more than 32 parts"):
        distinguished_name(name_of(33))


def test_long_name_is_rejected() -> None:
    assert len(distinguished_name(name_of(1, b"x" * 2000))) == 2003
    with pytest.raises(MalformedMessage, match="more than 2048"):
        distinguished_name(name_of(1, b"x" * 2040))


NODE = bytes.fromhex(next(iter(JAVA)))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "User:CN=node-1,OU=Ops,O=Example\\, Inc.,C=DE"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U, DEFAULT", "User:NODE-1@OPS"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "User:node-1@ops"),
        ("RULE:^CN=other,.*$/$1/,RULE:^CN=(.*?),.*$/$1/", "User:node-1"),
        ("RULE:^CN=(.*?),.*$/$12/", "User:node-12"),
        ("RULE:^CN=(.*?),.*$/$3-$1/", "User:$3-node-1"),
        (r"RULE:^CN=(.*?),.*$/a\/b/", "User:a/b"),
    ],
)
def test_first_matching_rule_names_the_principal(rules: str, expected: str) -> None:
    assert PrincipalMapper(rules).principal(NODE) == expected


def test_connection_without_certificate_is_anonymous() -> None:
    assert PrincipalMapper("DEFAULT").principal(None) == ANONYMOUS


def test_certificate_without_matching_rule_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        PrincipalMapper("RULE:^CN=other$/x/").principal(NODE)


@pytest.mark.parametrize("rules", ["nonsense", "RULE:(/x/", "RULE:^CN=(.*)$"])
def test_invalid_rules_are_rejected(rules: str) -> None:
    with pytest.raises(ValueError):
        PrincipalMapper(rules)
