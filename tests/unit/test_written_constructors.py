"""Written constructors take the fields of their dataclass, in its order, and assign each."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from quorumd.raft import effects, events, messages, roles

MODULES = (effects, events, messages, roles)
WRITTEN = [
    each
    for module in MODULES
    for each in vars(module).values()
    if inspect.isclass(each)
    and each.__module__ == module.__name__
    and is_dataclass(each)
    and not each.__dataclass_params__.init  # type: ignore[attr-defined]  # not in typeshed
]


def test_values_of_every_commit_have_written_constructors() -> None:
    assert {
        effects.Effects,
        effects.Respond,
        effects.Send,
        events.FlushCompleted,
        events.Propose,
        events.RequestReceived,
        events.ResponseReceived,
        messages.FetchedBatch,
        messages.FetchRequest,
        messages.FetchResponse,
        roles.DelayedFetch,
    } <= set(WRITTEN)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.__name__)
def test_written_constructor_assigns_every_field(written: Any) -> None:
    values = {field.name: object() for field in fields(written)}
    assert list(inspect.signature(written).parameters) == list(values)
    built = written(*values.values())
    assert {name: getattr(built, name) for name in values} == values


def test_effects_do_not_share_lists() -> None:
    first, second = effects.Effects(), effects.Effects()
    first.send.append(effects.Send(1, messages.EndEpochRequest(1, 1, 1, ())))
    first.reads_failed.append(lambda confirmed: None)
    assert second == effects.Effects()
