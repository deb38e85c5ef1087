"""The limit of open files: what is raised, and what connections leave free."""

import logging
import resource

import pytest

from quorumd.runtime.connection_quotas import ConnectionQuotas, NetworkLimits
from quorumd.runtime.descriptors import NO_LIMIT, RESERVED_DESCRIPTORS, DescriptorLimit, raise_limit
from tests.support.text import shows


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The soft and the hard limit of a process."""
    limits = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: limits.__setitem__(slice(None), new))
    return limits


def test_soft_limit_is_raised_to_the_hard_limit(limits: list[int], caplog: pytest.LogCaptureFixture) -> None:
    assert raise_limit(4096 - RESERVED_DESCRIPTORS) == DescriptorLimit(4096)
    assert limits == [4096, 4096]
    assert not caplog.messages


def test_connections_that_cannot_be_reached_are_reported(
    limits: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert raise_limit(10_000) == DescriptorLimit(4096)
    (warning,) = caplog.messages
    assert shows(warning, "max.connections=10000", "4096", str(10_000 + RESERVED_DESCRIPTORS))


@pytest.mark.parametrize("error", [ValueError("current limit exceeds maximum limit"), PermissionError()])
def test_limit_that_cannot_be_raised_stays(
    limits: list[int], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(kind: int, new: tuple[int, int]) -> None:
        raise error

    monkeypatch.setattr(resource, "setrlimit", refuse)
    limits[1] = resource.RLIM_INFINITY
    assert raise_limit(100) == DescriptorLimit(1024)


def test_unlimited_files_limit_nothing(limits: list[int], caplog: pytest.LogCaptureFixture) -> None:
    limits[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    assert raise_limit(1_000_000).admits(900_000)
    assert not caplog.messages


@pytest.mark.parametrize(("limit", "clients", "peers"), [(4096, 3840, 3968), (64, 48, 56)])
def test_reserve_is_kept_and_half_of_it_serves_peers(limit: int, clients: int, peers: int) -> None:
    """A small limit keeps a quarter free."""
    known = DescriptorLimit(limit)
    assert (known.admits(clients - 1), known.admits(clients)) == (True, False)
    assert (known.admits(peers - 1, uses_reserve=True), known.admits(peers, uses_reserve=True)) == (
        True,
        False,
    )
    assert NO_LIMIT.admits(1_000_000)


def test_hosts_of_the_quorum_get_what_is_reserved_for_them() -> None:
    quotas = ConnectionQuotas(
        NetworkLimits(max_connections=20, descriptors=DescriptorLimit(64)), lambda: None
    )
    assert [quotas.admit("stranger") for _ in range(20)] == [True] * 18 + [False] * 2
    assert not quotas.admit("voter")
    quotas.reserve_for("voter")
    assert [quotas.admit("voter") for _ in range(3)] == [True, True, False]
    for _ in range(3):
        quotas.release("stranger")
    assert [quotas.admit(host, 50) for host in ("stranger", "voter")] == [False, True]
