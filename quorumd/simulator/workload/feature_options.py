"""The initial feature levels of a simulated cluster, and the rate of their changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from quorumd.controller.bootstrap_metadata import feature_records
from quorumd.controller.cluster_image import KRAFT_VERSION, METADATA_VERSION
from quorumd.controller.metadata_versions import (
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    SupportedFeature,
    default_levels,
    unmet_dependencies,
)
from quorumd.log.bootstrap_file import encode_bootstrap
from quorumd.protocol.metadata_record import encode_record

WALL_MS: Final = 1_600_000_000_000


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """`levels`: initial levels, empty for the default; `changes_ms`: mean time between two requests for other levels,
    0 for none; `old_brokers`: number of brokers that initially support no higher levels than these; `changed`: the
    features that are changed, empty for all."""

    levels: Mapping[str, int] = field(default_factory=dict)
    changes_ms: float = 0.0
    old_brokers: float = 0.0
    changed: tuple[str, ...] = ()

    def bootstrap(self) -> bytes | None:
        """Return the `bootstrap.checkpoint` that `format` writes."""
        frames = [encode_record(record, 0) for record in feature_records(self.levels)] if self.levels else []
        return encode_bootstrap(frames, WALL_MS) if frames else None

    def ranges(self, is_old: bool) -> tuple[SupportedFeature, ...]:
        """Return the levels that a broker supports: all, or those up to the initial levels."""
        if not is_old or not self.levels:
            return SUPPORTED_FEATURES
        return tuple(
            feature._replace(highest=self.levels[feature.name])
            if feature.name == METADATA_VERSION
            else feature
            for feature in SUPPORTED_FEATURES
        )


def draw_levels(random: Random) -> dict[str, int]:
    """Draw valid initial levels: those of a metadata version, some of them changed."""
    levels = default_levels(random.choice(METADATA_VERSIONS).level)
    for feature in SUPPORTED_FEATURES[1:]:
        level = random.randint(feature.lowest, feature.highest)
        changes = random.random() < 0.3 and feature.name != KRAFT_VERSION
        if changes and not list(unmet_dependencies(feature.name, level, levels)):
            levels[feature.name] = level
    return levels
