from __future__ import annotations

from itertools import islice
from weakref import WeakSet

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorumd.controller import topic_ids
from quorumd.controller.topic_ids import MAX_STALE, TopicIds
from quorumd.controller.undo_log import UndoEntry, assign, remove, undo
from quorumd.ids import ZERO_UUID
from tests.support.call_counter import CallCounter

OPERATIONS = st.tuples(
    st.sampled_from(("create", "delete", "undo", "list")), st.sampled_from(("a", "ab", "b"))
)


@given(st.lists(OPERATIONS), st.sampled_from((0, 2)))
@example([("create", "b"), ("create", "a"), ("list", "a")], 0)
@example([("create", "b"), ("list", "a"), ("delete", "b"), ("list", "a"), ("undo", "b"), ("list", "a")], 2)
def test_names_are_in_order_after_every_change(operations: list[tuple[str, str]], max_stale: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_ids, "MAX_STALE", max_stale)
        ids = TopicIds()
        changes: list[UndoEntry] = []
        for operation, name in operations:
            if operation == "create":
                assign(ids, name, ZERO_UUID, changes)
            elif operation == "delete":
                remove(ids, name, changes)
            elif operation == "undo":
                undo(reversed(changes))
                changes.clear()
            else:
                assert list(ids.names_from(name)) == sorted(each for each in ids if each >= name)
        assert ids.names() == sorted(ids)


def calls_of_a_page(topics: int) -> int:
    """The function calls that the second of two pages of ten names takes, with a new topic between them."""
    ids = TopicIds()
    for number in range(topics):
        assign(ids, f"{number:06}", ZERO_UUID, [])
    assert len(list(islice(ids.names_from("000050"), 10))) == 10
    assign(ids, "000055-new", ZERO_UUID, [])
    calls = CallCounter()
    with calls.counted():
        page = list(islice(ids.names_from("000050"), 10))
    assert page[5:8] == ["000055", "000055-new", "000056"]
    return calls.longest


def test_page_of_many_topics_costs_as_much_as_of_few() -> None:
    assert calls_of_a_page(100) == calls_of_a_page(20 * MAX_STALE)


class ComparedName(str):
    """Counts how often names are compared."""

    comparisons = 0
    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        ComparedName.comparisons += 1
        return str.__lt__(self, other)


def test_names_are_not_sorted_again_for_each_page() -> None:
    ids = TopicIds()
    for number in range(3 * MAX_STALE):
        assign(ids, ComparedName(f"{number:06}"), ZERO_UUID, [])
    assert len(ids.names()) == 3 * MAX_STALE
    ComparedName.comparisons = 0
    assign(ids, ComparedName("000055-new"), ZERO_UUID, [])
    assert next(ids.names_from("000055-")) == "000055-new"
    assert ComparedName.comparisons < 100


class Name(str):
    """A name that shows whether it is still held."""

    __slots__ = ("__weakref__",)


def test_names_of_deleted_topics_do_not_accumulate() -> None:
    ids = TopicIds()
    held: WeakSet[Name] = WeakSet()
    for number in range(3 * MAX_STALE):
        name = Name(number)
        held.add(name)
        assign(ids, name, ZERO_UUID, [])
        assert ids.names() == [str(number)]
        remove(ids, name, [])
    assert len(held) <= MAX_STALE + 2
