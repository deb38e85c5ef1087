"""Some attacks for a moment on real daemons: no leader changes, no node exits, memory stays bounded.

The bounds of time are those of `make attack`, which has all attacks, for longer, on a machine that is not shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.attacks.attack import Attack, execute
from tests.attacks.catalogue import ATTACKS
from tests.attacks.field import Field, create_huge_topic, field
from tests.support.processes.daemons import Cluster

SCALE = 0.1
NAMES = (
    *("Metadata for 100 clients", "unfinished frames", "new observers", "malformed frames"),
    *("mutated TLS records", "mutated SASL messages", "mutated requests about ACLs"),
)
UNTIMED = ("a request waited", "no commit")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    def prepare(cluster: Cluster) -> None:
        asyncio.run(create_huge_topic(cluster))

    with field(tmp_path_factory.mktemp("field"), prepare) as ready:
        yield ready


@pytest.mark.parametrize(
    "attack", [each for each in ATTACKS if each.name in NAMES], ids=lambda each: each.name
)
def test_attack_stays_within_the_bounds(attacked: Field, attack: Attack) -> None:
    done = execute(attack, attacked, SCALE)
    assert [each for each in done.harm if not each.startswith(UNTIMED)] == []
