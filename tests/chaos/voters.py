"""Changes of the voters, requested as an operator would, until they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from threading import Thread

from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.messages.describe_quorum_response import PartitionData
from tests.chaos.client import Address, now_ms

SIZES = {1: 1, 2: 2, 3: 8, 4: 2, 5: 1}
"""Weights of the numbers of voters."""
CALL_MS = 10_000.0
ATTEMPT_MS = 2_000.0
POLL_S = 0.05
NO_TARGET_S = 5.0
"""Time without the target after which the request is repeated; a deposed leader, which describes an outdated quorum,
resigns earlier."""


def draw_voters(random: Random, nodes: Sequence[int], voters: Sequence[int]) -> tuple[int, ...]:
    """Draw voters that differ from the current voters, sorted."""
    sizes = {size: weight for size, weight in SIZES.items() if size <= len(nodes)}
    while True:
        (size,) = random.choices(list(sizes), list(sizes.values()))
        target = tuple(sorted(random.sample(list(nodes), size)))
        if target != tuple(sorted(voters)):
            return target


class Reassignment:
    """Requests the voters `target`, in a thread, until they are the voters and no change is in progress.

    After an error the request is repeated; errors are only recorded.
    """

    def __init__(self, addresses: Sequence[Address], target: Sequence[int]) -> None:
        self.target = tuple(target)
        self.requested_ms = now_ms()
        self.reached_ms: float | None = None
        self.errors: list[str] = []
        """Errors of the client, in chronological order."""
        self.last_seen = "no leader"
        self._addresses = addresses
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._run())
        self._thread = Thread(target=self._work, name="reassignment", daemon=True)
        self._thread.start()

    @property
    def is_reached(self) -> bool:
        return self.reached_ms is not None

    @property
    def took_ms(self) -> float:
        """The time from the first request to completion."""
        assert self.reached_ms is not None
        return self.reached_ms - self.requested_ms

    def stop(self) -> None:
        """End the thread, and raise its exception if it failed; the change may still complete."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        if not self._task.cancelled():
            self._task.result()

    def _work(self) -> None:
        with suppress(asyncio.CancelledError, Exception):  # `stop` raises it
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _run(self) -> None:
        async with AdminClient(
            self._addresses, client_id="operator", timeout_ms=CALL_MS, attempt_timeout_ms=ATTEMPT_MS
        ) as admin:
            while not self.is_reached:
                try:
                    await admin.alter_quorum(self.target)
                    await self._watch(admin)
                except RequestFailed as error:
                    self.errors.append(str(error))
                    await asyncio.sleep(POLL_S)

    async def _watch(self, admin: AdminClient) -> None:
        """Wait until the target is reached, or was not described for NO_TARGET_S. Raises RequestFailed."""
        loop = asyncio.get_running_loop()
        wanted_at = loop.time()
        while loop.time() - wanted_at < NO_TARGET_S:
            quorum = await admin.describe_quorum()
            voters, target = voters_and_target(quorum)
            self.last_seen = f"leader {quorum.leader_id} of epoch {quorum.leader_epoch}: {voters} to {target}"
            if target is None and voters == set(self.target):
                self.reached_ms = now_ms()
                return
            if target == set(self.target):
                wanted_at = loop.time()
            await asyncio.sleep(POLL_S)
        self.errors.append(f"the committed target has disappeared; {self.last_seen}")


def voters_and_target(quorum: PartitionData) -> tuple[set[int], set[int] | None]:
    """Return the ids of the voters, and of the target voters or None if no change is in progress."""
    target = quorum.target_voters
    voters = {voter.replica_id for voter in quorum.current_voters}
    return voters, None if target is None else {each.voter_id for each in target}
