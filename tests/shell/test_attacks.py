"""Some attacks for a moment on real daemons: no leader changes, no node exits, memory stays bounded.

The bounds of time are those of `make attack`, which has all attacks, for longer, on a machine that is not shared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.attack import Attack, execute
from tests.attacks.catalogue import ATTACKS, BROKER_ATTACKS
from tests.attacks.field import Field, broker_field, field

SCALE = 0.1
NAMES = (
    *("Metadata for 100 clients", "unfinished frames", "new observers", "malformed frames"),
    *("mutated TLS records", "mutated SASL messages", "mutated requests about ACLs"),
    "topics at followers",
    *("huge certificates", "half-open TLS handshakes", "long TLS handshakes"),
    *("renegotiations", "unread changes of TLS keys"),
    *("changes of ACLs", "changes of quotas", "changes of SCRAM credentials", "changes of tokens"),
    *("changes of configs", "changes without rights"),
    *("new groups", "large members", "fetch sessions", "delegation tokens"),
)
UNTIMED = ("a request waited", "no commit")


def chosen(attacks: tuple[Attack, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "attack", [each for each in attacks if each.name in NAMES], ids=lambda each: each.name
    )


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with field(tmp_path_factory.mktemp("field")) as ready:
        yield ready


@pytest.fixture(scope="module")
def attacked_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with broker_field(tmp_path_factory.mktemp("broker")) as ready:
        yield ready


@chosen(ATTACKS)
def test_attack_stays_within_the_bounds(attacked: Field, attack: Attack) -> None:
    check(attacked, attack)


@chosen(BROKER_ATTACKS)
def test_attack_on_a_broker_stays_within_the_bounds(attacked_broker: Field, attack: Attack) -> None:
    check(attacked_broker, attack)


def check(attacked: Field, attack: Attack) -> None:
    done = execute(attack, attacked, SCALE)
    assert [each for each in done.harm if not each.startswith(UNTIMED)] == []
