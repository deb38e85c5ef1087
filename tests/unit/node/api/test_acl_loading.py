"""When the image has the ACLs that were committed at the start of a node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.node.api.context import AclLoading


@pytest.mark.parametrize(
    ("high_watermark", "applied_offset", "is_readable", "is_complete"),
    [
        (-1, 0, True, False),
        (0, 0, True, False),
        (9, 8, True, False),
        (9, 9, False, False),
        (9, 9, True, True),
    ],
)
def test_acls_are_loaded_once_the_image_has_what_is_committed(
    high_watermark: int, applied_offset: int, is_readable: bool, is_complete: bool
) -> None:
    engine: Any = SimpleNamespace(high_watermark=high_watermark)
    machine: Any = SimpleNamespace(applied_offset=applied_offset, is_readable=is_readable)
    assert AclLoading(engine, machine).is_complete() == is_complete


def test_acls_stay_loaded_while_the_image_is_behind() -> None:
    engine: Any = SimpleNamespace(high_watermark=9)
    machine: Any = SimpleNamespace(applied_offset=9, is_readable=True)
    loading = AclLoading(engine, machine)
    assert loading.is_complete()
    engine.high_watermark = 12
    assert loading.is_complete()
