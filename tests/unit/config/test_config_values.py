"""Accepted values of each kind, and errors for others."""

from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from quorumd.config import values
from quorumd.config.values import Kind, VoterAddress, choice, duration, integer, or_any, or_empty, size
from quorumd.ids import Endpoint


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (duration("1ms", "10d"), "1500", 1500),
        (duration("1ms", "10d"), "1500ms", 1500),
        (duration("1ms", "10d"), "2s", 2000),
        (duration("1ms", "10d"), "3 M", 180_000),
        (duration("1ms", "10d"), "1h", 3_600_000),
        (duration("1ms", "10d"), "7d", 604_800_000),
        (size("1", "2g"), "4096", 4096),
        (size("1", "2g"), "8MiB", 8 << 20),
        (size("1", "2g"), "1g", 1 << 30),
        (size("1", "2g"), "64 KiB", 65536),
        (or_any(size("1", "2g")), "-1", -1),
        (or_any(duration("0ms", "10d")), "1h", 3_600_000),
        (integer(0, 9), "+9", 9),
        (choice("text", "json"), "JSON", "json"),
        (values.LISTENERS, "controller://[::1]:0", (Endpoint("CONTROLLER", "::1", 0),)),
        (values.LISTENERS, "A://:9092, B://h:1", (Endpoint("A", "", 9092), Endpoint("B", "h", 1))),
        (values.ADVERTISED_LISTENERS, "", ()),
        (values.ADDRESSES, " a.example:1 , [fe80::1]:65535,", (("a.example", 1), ("fe80::1", 65535))),
        (values.ADDRESSES, "", ()),
        (values.VOTERS, "3,1,2", (VoterAddress(1), VoterAddress(2), VoterAddress(3))),
        (values.VOTERS, "2@b:9,1@a:9", (VoterAddress(1, "a", 9), VoterAddress(2, "b", 9))),
        (values.OPTIONAL_ADDRESS, "127.0.0.1:0", ("127.0.0.1", 0)),
        (values.OPTIONAL_ADDRESS, "", None),
        (values.PROTOCOL_MAP, "a:plaintext,SSL:SSL", (("A", "PLAINTEXT"), ("SSL", "SSL"))),
        (values.ROLES, "Controller", ("controller",)),
        (values.ROLES, "", ()),
        (values.ROLES, "controller, Broker", ("broker", "controller")),
        (values.DIRECTORY, "/var/lib/quorumd", "/var/lib/quorumd"),
        (values.DIRECTORY, "", ""),
        (values.DIRECTORIES, "/a, /b", ("/a", "/b")),
        (or_empty(integer(0, 9)), "", None),
        (or_empty(integer(0, 9)), "7", 7),
    ],
)
def test_valid_values_are_accepted(kind: Kind[Any], text: str, value: object) -> None:
    assert kind.validate(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        (duration("10ms", "1h"), "9", "too small"),
        (duration("10ms", "1h"), "61m", "too large"),
        (duration("10ms", "1h"), "2 weeks", "'weeks' is not a unit"),
        (duration("10ms", "1h"), "-1", "not a number with an optional unit"),
        (duration("10ms", "1h"), "1.5s", "not a number with an optional unit"),
        (duration("10ms", "1h"), "", "the value is empty"),
        (duration("10ms", "1h"), "9" * 5000, "limit"),
        (size("1", "1g"), "10MB", "'MB' is not a unit"),
        (size("1", "1g"), "2GiB", "too large"),
        (or_any(size("1", "1g")), "-2", "not a number with an optional unit"),
        (or_any(size("1", "1g")), "0", "too small"),
        (integer(0, 9), "10", "too large"),
        (integer(0, 9), "-1", "too small"),
        (integer(0, 9), "1e3", "not an integer"),
        (integer(0, 9), "٣", "not an integer"),
        (choice("text", "json"), "xml", "not one of the choices"),
        (values.LISTENERS, "", "the value is empty"),
        (values.LISTENERS, "127.0.0.1:9092", "'127.0.0.1:9092' is not a listener"),
        (values.LISTENERS, "PLAINTEXT://h:65536", "65536 is not a valid port"),
        (values.LISTENERS, "A://h:1,a://h:2", "A is listed twice"),
        (values.ADVERTISED_LISTENERS, "A://0.0.0.0:1", "wildcard"),
        (values.ADDRESSES, "a:1,b", "'b' is not host:port"),
        (values.ADDRESSES, ":1", "':1' is not host:port"),
        (values.ADDRESSES, "a:0", "0 is not a valid port"),
        (values.VOTERS, "1,2,1", "voter 1 is listed twice"),
        (values.VOTERS, "-1", "'-1' is not a node id"),
        (values.VOTERS, "1@", "'' is not host:port"),
        (values.VOTERS, "2147483648", "'2147483648' is not a node id"),
        (values.OPTIONAL_ADDRESS, "9100", "not host:port"),
        (values.PROTOCOL_MAP, "A:TLS", "'A:TLS' is not NAME:PROTOCOL"),
        (values.ROLES, "controller,voter", "'voter' is not a role"),
        (values.MECHANISMS, "PLAIN,GSSAPI", "'GSSAPI' is not a supported mechanism"),
        (values.TLS_PROTOCOLS, "SSLv3", "no supported version"),
        (values.PEM, "x", "not PEM"),
        (values.JAAS, "x", "does not begin with one of"),
        (values.MAPPING_RULES, "x", "'x' is not a rule"),
        (values.DIRECTORY, "/a,/b", "2 directories"),
        (values.DIRECTORIES, "/a,/a", "twice"),
        (values.TEXT, "a\tb", "a control character"),
    ],
)
def test_invalid_values_are_rejected_with_reason(kind: Kind[Any], text: str, wrong: str) -> None:
    with pytest.raises(PydanticCustomError) as refusal:
        kind.validate(text)
    context = refusal.value.context
    assert context is not None
    assert wrong in context["wrong"]
    assert context["allowed"] == kind.allowed


def test_number_may_be_given_as_int() -> None:
    assert duration("10ms", "1h").validate(2000) == 2000
