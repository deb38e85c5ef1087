"""Clients that log in to simulated nodes, and use delegation tokens."""

from __future__ import annotations

from random import Random

from quorumd.simulator.checkers.access import AccessIsAsGranted
from quorumd.simulator.checkers.logins import LoginsAreAuthentic
from quorumd.simulator.workload.login_client import LoginWorkload
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def used(checker: LoginsAreAuthentic, **options: object) -> LoginWorkload:
    """Let clients log in for a while."""
    cluster = make_cluster(3, logins_ms=5.0, **options)
    elect(cluster)
    workload = LoginWorkload(cluster, Random(1), 5.0, checker, AccessIsAsGranted())
    workload.start()
    run(cluster, 20_000.0)
    workload.stop()
    run(cluster, 10_000.0)
    return workload


def test_clients_log_in_with_passwords_and_tokens() -> None:
    checker = LoginsAreAuthentic()
    used(checker)
    for each in ("success", "failure"):
        assert checker.counters[f"login: {each}"] > 10
        assert checker.counters[f"login with a token: {each}"] > 3


def test_tokens_are_created_changed_and_listed() -> None:
    checker = LoginsAreAuthentic()
    used(checker)
    assert checker.counters["lists of tokens"] > 10
    for error in ("NONE", "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "INVALID_PRINCIPAL_TYPE"):
        assert checker.counters[f"token created: {error}"], error
    for error in (
        "NONE",
        "DELEGATION_TOKEN_NOT_FOUND",
        "DELEGATION_TOKEN_OWNER_MISMATCH",
        "DELEGATION_TOKEN_EXPIRED",
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
    ):
        assert checker.counters[f"token changed: {error}"], error


def test_authorizer_refuses_tokens_for_others() -> None:
    checker = LoginsAreAuthentic()
    used(checker, access_ms=100.0)
    assert checker.counters["token created: DELEGATION_TOKEN_AUTHORIZATION_FAILED"]


def test_clients_stop() -> None:
    checker = LoginsAreAuthentic()
    cluster = make_cluster(1, logins_ms=5.0)
    elect(cluster)
    workload = LoginWorkload(cluster, Random(1), 5.0, checker, AccessIsAsGranted())
    workload.start()
    run(cluster, 1000.0)
    workload.stop()
    run(cluster, 10_000.0)
    count = checker.counters.total()
    assert count
    run(cluster, 5000.0)
    assert checker.counters.total() == count
