"""A leader role that a test sets."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.leader_role import LeaderRole


class ScriptedRole(LeaderRole):
    """Leads, with a complete image, while `leads()` is true."""

    def __init__(self, leads: Callable[[], bool]) -> None:
        self._leads = leads

    @property
    def is_leader(self) -> bool:
        return self._leads()

    @property
    def is_active_controller(self) -> bool:
        return self._leads()
