"""Filters of ACLs, hosts, and which patterns apply to a resource."""

from __future__ import annotations

import pytest

from quorumd.security.acls import (
    ANY,
    Acl,
    AclFilter,
    AclIndex,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    host_of_acl,
    is_host_in,
    is_valid_range,
    java_host,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(name: str = "orders", pattern_type: int = LITERAL, host: str = "*") -> Acl:
    return Acl(ResourceType.TOPIC, pattern_type, name, "User:alice", host, Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("filter", "matches"),
    [
        (AclFilter(), True),
        (AclFilter(name="orders"), True),
        (AclFilter(name="ord"), False),
        (AclFilter(resource_type=ResourceType.GROUP), False),
        (AclFilter(pattern_type=PREFIXED), False),
        (AclFilter(pattern_type=LITERAL, name="orders"), True),
        (AclFilter(pattern_type=PatternType.MATCH, name="orders"), True),
        (AclFilter(pattern_type=PatternType.MATCH, name="other"), False),
        (AclFilter(pattern_type=PatternType.MATCH), True),
        (AclFilter(principal="User:bob"), False),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=Operation.WRITE), False),
        (AclFilter(operation=Operation.READ), True),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_filter_selects(filter: AclFilter, matches: bool) -> None:
    assert filter.matches(acl()) is matches


def test_match_filter_selects_wildcards_and_prefixes() -> None:
    by_name = AclFilter(pattern_type=PatternType.MATCH, name="orders")
    assert by_name.matches(acl("*"))
    assert by_name.matches(acl("ord", PREFIXED))
    assert not by_name.matches(acl("x", PREFIXED))


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission"])
def test_codes_of_filters_are_checked(field: str) -> None:
    assert AclFilter().is_known
    assert not AclFilter()._replace(**{field: 0}).is_known
    assert not AclFilter()._replace(**{field: 99}).is_known
    assert AclFilter()._replace(**{field: ANY}).is_known


@pytest.mark.parametrize(
    ("host", "allowed", "expected"),
    [
        ("10.0.0.1", "*", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "10.0.0.77/24", True),
        ("10.0.1.1", "10.0.0.0/24", False),
        ("10.0.0.1", "10.0.0.0/33", False),
        ("not an address", "10.0.0.0/8", False),
        ("0.0.0.0", "0.0.0.0/0", False),
        ("0:0:0:0:0:0:0:1", "::/0", True),
        ("10.0.0.1", "::/0", False),
        ("10.0.0.1", "10.0.0.0/255.0.0.0", False),
    ],
)
def test_host_is_covered(host: str, allowed: str, expected: bool) -> None:
    assert is_host_in(host, allowed) is expected


def test_ranges_are_validated() -> None:
    assert is_valid_range("10.0.0.0/8")
    assert is_valid_range("2001:db8::/32")
    assert not is_valid_range("10.0.0.0/40")
    assert not is_valid_range("host/8")


@pytest.mark.parametrize(
    ("given", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::7%eth0", "2001:db8:0:0:0:0:0:7"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("this process", "this process"),
    ],
)
def test_addresses_are_written_as_java_does(given: str, java: str) -> None:
    assert java_host(given) == java


def test_index_without_acls_has_no_pattern() -> None:
    assert list(AclIndex().patterns_of(ResourceType.TOPIC, "orders")) == []
    assert not AclIndex().contains(acl())


@pytest.mark.parametrize("text", ["*", "10.0.0.1", "10.0.0.0/8", "::1", "fe80::/10"])
def test_host_of_an_acl_applies_to_the_addresses_that_it_names(text: str) -> None:
    address = java_host(text.partition("/")[0] if text != "*" else "10.0.0.1")
    assert is_host_in(address, host_of_acl(text))


@pytest.mark.parametrize("text", ["", "a.example", "10.0.0", "10.0.0.0/33", "10.0.0.0/x"])
def test_other_hosts_of_acls_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6"):
        host_of_acl(text)
