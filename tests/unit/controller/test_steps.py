from __future__ import annotations

from random import Random

import pytest

from quorumd.controller.steps import RUN, select_sorted
from tests.support.protocol.steps import run_steps


@pytest.mark.parametrize("count", [0, 1, RUN, RUN + 1, 5 * RUN + 7])
def test_selected_items_are_sorted_in_one_step_each(count: int) -> None:
    items = [(number,) for number in range(count)]
    Random(count).shuffle(items)
    steps, selected = run_steps(select_sorted(items, lambda item: item[0] % 3 > 0, lambda item: item))
    assert list(selected) == [(number,) for number in range(count) if number % 3]
    assert steps == count


def test_items_are_sorted_by_their_key() -> None:
    items = [(number, str(number)) for number in range(3 * RUN)]
    _, selected = run_steps(select_sorted(items, lambda item: True, lambda item: (item[1],)))
    assert [text for _, text in selected] == sorted(str(number) for number in range(3 * RUN))
