"""An administrator whose requests are invalid: each must be refused with the documented error."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Final

from quorumd.errors import ErrorCode
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administered_register import OPEN_OUTCOMES
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.workload.mistakes import Mistake, draw_mistake
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

HOST: Final = "10.0.16.1"
NAME: Final = "careless administrator"
INVARIANT: Final = "mistakes get their documented error"


class CarelessAdministrator(RequestLoop):
    """Sends mistakes to random nodes."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()

    def draw(self) -> Drawn:
        """Draw a mistake, and a node."""
        mistake = draw_mistake(self._random)
        address = self._random.choice(self._nodes)
        return Drawn(mistake.request, mistake.version, address, partial(self.judge, mistake))

    def judge(self, mistake: Mistake, message: Message | None) -> None:
        """Check a response. Raises InvariantViolation."""
        name = type(mistake.request).__name__.removesuffix("Request")
        if message is None:
            self.counters[f"mistake: {name} without response"] += 1
            return
        self.counters[f"mistake: {name}"] += 1
        codes = {code for code, _ in errors_in(message)} or {int(ErrorCode.NONE)}
        if codes.isdisjoint(OPEN_OUTCOMES) and not codes <= mistake.expected:
            names = [ErrorCode(code).name for code in sorted(codes)]
            raise InvariantViolation(INVARIANT, f"{mistake.request!r} has {names}: {message!r}")
