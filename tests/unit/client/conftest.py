from __future__ import annotations

import asyncio

import pytest_asyncio

from tests.support.client.event_loop_patience import be_patient


@pytest_asyncio.fixture
async def patient_time() -> None:
    """Timeouts of milliseconds are for who stays silent, not for a machine that stands still."""
    be_patient(asyncio.get_running_loop())
