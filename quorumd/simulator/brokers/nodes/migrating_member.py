"""Consumers that change between the protocols of groups, so that their group migrates online (KIP-848)."""

from __future__ import annotations

from typing import Final

from quorumd.simulator.brokers.nodes.clients import BrokerClient
from quorumd.simulator.brokers.nodes.groups import ClassicMember, ConsumerProtocolMember, GroupMember
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.options import BrokerOptions

PROTOCOLS: Final = (ClassicMember, ConsumerProtocolMember)


class MigratingMember:
    """Is a member of a group until it leaves, and returns with either protocol, until `running` is False."""

    def __init__(self, client: BrokerClient, options: BrokerOptions, recorder: Recorder, group: str) -> None:
        self._client = client
        self._options = options
        self._recorder = recorder
        self._group = group
        self._member = self._new_member()

    @property
    def running(self) -> bool:
        return self._member.running

    @running.setter
    def running(self, value: bool) -> None:
        self._member.running = value

    def start(self) -> None:
        """Join with the present protocol after a random pause."""
        self._member.start()

    def _new_member(self) -> GroupMember:
        protocol = self._client.random.choice(PROTOCOLS)
        return protocol(self._client, self._options, self._recorder, self._group, self._returns)

    def _returns(self) -> None:
        if self.running:
            self._member = self._new_member()
            self.start()
