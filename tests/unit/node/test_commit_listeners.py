"""Commits, flushes and elections reach the parts of a node."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.node.commit_listeners import CommitListeners


@pytest.mark.parametrize("leader_id", [0, 2])
def test_node_announces_its_address_to_a_new_leader(leader_id: int) -> None:
    assert announced_to(leader_id) == [leader_id]


def test_node_announces_its_address_to_none_during_an_election() -> None:
    assert announced_to(-1) == []


def announced_to(leader_id: int) -> list[int]:
    announced: list[int] = []
    part: Any = SimpleNamespace(changed=lambda: None, leadership_changed=lambda: None)
    change_leadership(leader_id, announced.append, part, part, None)
    return announced


def change_leadership(
    leader_id: int, announce_to: Callable[[int], None], monitor: Any, leadership: Any, broker: Any
) -> None:
    unused: Any = None
    context: Any = SimpleNamespace(
        quorum=SimpleNamespace(engine=SimpleNamespace(leader_id=leader_id), log=None),
        metadata=SimpleNamespace(state_machine=None, proposals=None),
        peers=SimpleNamespace(discovery=SimpleNamespace(announce_to=announce_to), monitor=monitor),
    )
    CommitListeners(context, unused, unused, leadership, broker).leadership_changed()


def test_change_of_leadership_reaches_every_part() -> None:
    seen: list[str] = []

    def part(name: str) -> Any:
        return SimpleNamespace(
            changed=lambda: seen.append(name), leadership_changed=lambda: seen.append(name)
        )

    change_leadership(
        2, lambda _: seen.append("discovery"), part("monitor"), part("leadership"), part("broker")
    )
    assert seen == ["leadership", "discovery", "monitor", "broker"]


def test_flush_reaches_proposals_and_the_checkpoint() -> None:
    seen: list[str] = []
    unused: Any = None
    proposals = SimpleNamespace(on_flush_completed=lambda: seen.append("proposals"))
    checkpointer: Any = SimpleNamespace(save_if_sealed=lambda sealed: seen.append(f"seal {sealed}"))
    context: Any = SimpleNamespace(
        quorum=SimpleNamespace(engine=None, log=SimpleNamespace(active_base_offset=4)),
        metadata=SimpleNamespace(state_machine=None, proposals=proposals),
        peers=SimpleNamespace(discovery=None, monitor=None),
    )
    CommitListeners(context, unused, checkpointer, unused, None).on_flush_completed()
    assert seen == ["proposals", "seal 4"]


def test_commit_reaches_every_part() -> None:
    seen: list[str] = []

    def part(name: str) -> Any:
        def committed(*arguments: int) -> None:
            seen.append(" ".join([name, *map(str, arguments)]))

        return SimpleNamespace(
            committed=committed, save_if_sealed=lambda sealed: seen.append(f"seal {sealed}")
        )

    context: Any = SimpleNamespace(
        quorum=SimpleNamespace(engine=None, log=SimpleNamespace(active_base_offset=4)),
        metadata=SimpleNamespace(state_machine=part("machine"), proposals=part("proposals")),
        peers=SimpleNamespace(discovery=None, monitor=part("monitor")),
    )
    listeners = CommitListeners(
        context, part("voters"), part("checkpoint"), part("leadership"), part("broker")
    )
    listeners.committed(9)
    assert seen == ["monitor", "machine 9", "proposals 9", "voters 9", "seal 4", "leadership", "broker 9"]
