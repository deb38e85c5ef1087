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
from quorumd.simulator.workload.request_loop import TIMEOUT_MS, Drawn, RequestLoop

HOST: Final = "10.0.5.1"
NAME: Final = "feature operator"
VERSION: Final = 2
OFTEN_CHANGED: Final = tuple(
    each for each in SUPPORTED_FEATURES if each.name in (METADATA_VERSION, ELR_VERSION)
)
WALL_MS: Final = 1_600_000_000_000


class FeatureOperator(RequestLoop):
    """Requests valid and invalid levels from random nodes, for the features named in `changed`, or for all if it is
    empty. Reports requests and responses to `checker`."""

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        interval_ms: float,
        checker: FeaturesAreFinalized,
        changed: Sequence[str] = (),
    ) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()
        self._checker = checker
        self._changed = changed

    def draw(self) -> Drawn:
        """Draw changes of one or two features."""
        updates = {update.feature: update for update in self._updates()}
        validate_only = self._random.random() < 0.15
        request = UpdateFeaturesRequest(int(TIMEOUT_MS), list(updates.values()), validate_only)
        wanted = {name: update.max_version_level for name, update in updates.items()}
        number = self._checker.requested({} if validate_only else wanted)
        return Drawn(request, VERSION, self._random.choice(self._nodes), partial(self._on_response, number))

    def _on_response(self, number: int, message: Message | None) -> None:
        code = ErrorCode(message.error_code) if isinstance(message, UpdateFeaturesResponse) else None
        self.counters[f"UpdateFeatures: {code.name if code is not None else 'no response'}"] += 1
        if code is not None:
            self._checker.responded(number, code)

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
