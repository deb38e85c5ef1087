"""Other voters are asked for as an operator does it: until it is committed, and watched until it is reached."""

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
"""How many voters there shall be, and how often, by weight."""
CALL_MS = 10_000.0
ATTEMPT_MS = 2_000.0
POLL_S = 0.05
NO_TARGET_S = 5.0
"""A leader that was deposed and does not know it yet tells of an older quorum, but not for so long."""


def draw_voters(random: Random, nodes: Sequence[int], voters: Sequence[int]) -> tuple[int, ...]:
    """Other voters than those of now, in order."""
    sizes = {size: weight for size, weight in SIZES.items() if size <= len(nodes)}
    while True:
        (size,) = random.choices(list(sizes), list(sizes.values()))
        target = tuple(sorted(random.sample(list(nodes), size)))
        if target != tuple(sorted(voters)):
            return target


class Reassignment:
    """Asks for `target` from now on, in a thread, until these are the voters and nothing is under way.

    Who does not know what became of a request asks again: the client's errors are kept, and are no failure here.
    """

    def __init__(self, addresses: Sequence[Address], target: Sequence[int]) -> None:
        self.target = tuple(target)
        self.asked_ms = now_ms()
        self.reached_ms: float | None = None
        self.errors: list[str] = []
        """What the client could not do, in the order of time."""
        self.last_told = "nobody"
        self._addresses = addresses
        self._loop = asyncio.new_event_loop()
        self._asking = self._loop.create_task(self._ask())
        self._thread = Thread(target=self._work, name="reassignment", daemon=True)
        self._thread.start()

    @property
    def is_reached(self) -> bool:
        return self.reached_ms is not None

    @property
    def took_ms(self) -> float:
        """From asking to reaching it."""
        assert self.reached_ms is not None
        return self.reached_ms - self.asked_ms

    def stop(self) -> None:
        """Ask and watch no more; what was asked for may still happen. Raises what broke the thread."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it ended just now
                self._loop.call_soon_threadsafe(self._asking.cancel)
        self._thread.join()
        if not self._asking.cancelled():
            self._asking.result()

    def _work(self) -> None:
        with suppress(asyncio.CancelledError, Exception):  # `stop` raises it where somebody sees it
            self._loop.run_until_complete(self._asking)
        self._loop.close()

    async def _ask(self) -> None:
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
        """Until it is reached, or the target has been gone for too long. Raises RequestFailed."""
        loop = asyncio.get_running_loop()
        wanted_at = loop.time()
        while loop.time() - wanted_at < NO_TARGET_S:
            quorum = await admin.describe_quorum()
            voters, target = voters_and_target(quorum)
            self.last_told = f"leader {quorum.leader_id} of epoch {quorum.leader_epoch}: {voters} to {target}"
            if target is None and voters == set(self.target):
                self.reached_ms = now_ms()
                return
            if target == set(self.target):
                wanted_at = loop.time()
            await asyncio.sleep(POLL_S)
        self.errors.append(f"the target was gone after it had been committed; {self.last_told}")


def voters_and_target(quorum: PartitionData) -> tuple[set[int], set[int] | None]:
    """Ids of the voters, and of those that they shall be, None if nothing is under way."""
    target = quorum.target_voters
    voters = {voter.replica_id for voter in quorum.current_voters}
    return voters, None if target is None else {each.voter_id for each in target}
