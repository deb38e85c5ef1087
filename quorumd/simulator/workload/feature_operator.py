"""An operator that changes feature levels of a running cluster (KIP-584)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ELR_VERSION, METADATA_VERSION
from quorumd.controller.features import UpgradeType
from quorumd.controller.metadata_versions import (
    SUPPORTED_FEATURES,
)
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from quorumd.protocol.messages.update_features_response import UpdateFeaturesResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.features import FeaturesAreFinalized
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process, Scheduled
from quorumd.simulator.workload.request_connection import RequestConnection

HOST: Final = "10.0.5.1"
TIMEOUT_MS: Final = 2000.0
VERSION: Final = 2
OFTEN_CHANGED: Final = tuple(
    each for each in SUPPORTED_FEATURES if each.name in (METADATA_VERSION, ELR_VERSION)
)
WALL_MS: Final = 1_600_000_000_000


class FeatureOperator:
    """Requests levels, valid and invalid ones, from random nodes at a mean interval of `interval_ms` until `running`
    is False: for the features named in `changed`, or for all. Reports requests and responses to `checker`."""

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        interval_ms: float,
        checker: FeaturesAreFinalized,
        changed: Sequence[str] = (),
    ) -> None:
        self.running = True
        self.counters: Counter[str] = Counter()
        self._heap = cluster.heap
        self._process = Process("feature operator")
        self._network = cluster.network.host(HOST, self._process)
        self._addresses = cluster.addresses()
        self._random = random
        self._interval_ms = interval_ms
        self._checker = checker
        self._changed = changed
        self._link: RequestConnection | None = None
        self._timer: Scheduled | None = None

    def start(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._send_request, b"feature operator", self._process)

    def _send_request(self) -> None:
        if not self.running:
            return
        updates = {update.feature: update for update in self._updates()}
        validate_only = self._random.random() < 0.15
        request = UpdateFeaturesRequest(int(TIMEOUT_MS), list(updates.values()), validate_only)
        wanted = {name: update.max_version_level for name, update in updates.items()}
        number = self._checker.requested({} if validate_only else wanted)
        on_response = partial(self._on_response, number)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(on_response, None), b"timeout", self._process)
        self._link = RequestConnection("feature operator", request, VERSION, on_response)
        self._network.connect(*self._random.choice(self._addresses), self._link)

    def _on_response(self, number: int, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        code = ErrorCode(message.error_code) if isinstance(message, UpdateFeaturesResponse) else None
        self.counters[f"UpdateFeatures: {code.name if code is not None else 'no response'}"] += 1
        if code is not None:
            self._checker.responded(number, code)
        self.start()

    def _updates(self) -> list[FeatureUpdateKey]:
        random = self._random
        features = [*OFTEN_CHANGED, *random.sample(SUPPORTED_FEATURES, 2)]
        if self._changed:
            features = [feature for feature in SUPPORTED_FEATURES if feature.name in self._changed]
        updates = []
        for feature in random.sample(features, min(len(features), random.choice((1, 1, 2)))):
            beyond = random.random() < 0.1
            level = random.randint(feature.lowest - beyond, feature.highest + beyond)
            current = self._checker.levels.get(feature.name, 0)
            if feature.name == METADATA_VERSION and random.random() < 0.5:
                level = current + random.choice((-2, -1, 1, 2))
            down = random.choice((UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE))
            kind = down if level < current else UpgradeType.UPGRADE
            if random.random() < 0.15:
                kind = random.choice(list(UpgradeType))
            updates.append(FeatureUpdateKey(feature.name, max(level, -1), False, int(kind)))
        return updates
