"""When the image has the ACLs that were committed at the start of a node."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.api.context import AclLoading
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.node.scripted_image import ScriptedImage


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
    engine: Any = ScriptedEngine(high_watermark=high_watermark)
    machine: Any = ScriptedImage(applied_offset=applied_offset, is_readable=is_readable)
    assert AclLoading(engine, machine).is_complete() == is_complete


def test_acls_stay_loaded_while_the_image_is_behind() -> None:
    engine: Any = ScriptedEngine(high_watermark=9)
    machine: Any = ScriptedImage(applied_offset=9, is_readable=True)
    loading = AclLoading(engine, machine)
    assert loading.is_complete()
    engine.high_watermark = 12
    assert loading.is_complete()
