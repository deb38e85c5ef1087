from __future__ import annotations

import asyncio

import pytest_asyncio

from tests.support.client.event_loop_patience import be_patient


@pytest_asyncio.fixture
async def patient_time() -> None:
    """Millisecond timeouts are meant for silent nodes, not for a machine that stalls."""
    be_patient(asyncio.get_running_loop())
