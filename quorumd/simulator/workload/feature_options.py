"""The initial feature levels of a simulated cluster, and the rate of their changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from quorumd.controller.bootstrap_metadata import feature_records, initial_feature_levels
from quorumd.controller.cluster_image import METADATA_VERSION
from quorumd.controller.metadata_versions import (
    METADATA_VERSIONS,
    SUPPORTED_FEATURES,
    SupportedFeature,
)
from quorumd.controller.scram_credentials import parse_credential
from quorumd.log.bootstrap_file import encode_bootstrap
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.metadata_record import encode_record

WALL_MS: Final = 1_600_000_000_000


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """The initial features and credentials of a cluster, and the changes of features."""

    levels: Mapping[str, int] = field(default_factory=dict)
    """The initial levels, empty for the default."""
    changes_ms: float = 0.0
    """Mean time between two requests for other levels; 0 for none."""
    old_brokers: float = 0.0
    """Share of brokers that at first support no higher metadata version than the initial one."""
    changed: tuple[str, ...] = ()
    """The features that are changed, empty for all."""
    credentials: tuple[str, ...] = ()
    """SCRAM credentials in the syntax of `format --add-scram`."""

    def bootstrap(self) -> bytes | None:
        """Return the `bootstrap.checkpoint` that `format` writes."""
        return encode_bootstrap(self.frames(), WALL_MS) if self.levels or self.credentials else None

    def frames(self) -> list[bytes]:
        """Return the frames of the initial records."""
        levels = self.levels or initial_feature_levels(None, {})
        records = [*feature_records(levels), *self.credential_records()]
        return [encode_record(record, 0) for record in records]

    def credential_records(self) -> list[UserScramCredentialRecord]:
        """Return the records of the credentials."""
        return [parse_credential(each, _salt) for each in self.credentials]

    def ranges(self, is_old: bool) -> tuple[SupportedFeature, ...]:
        """Return the levels that a broker supports; an old one supports metadata versions up to the initial one."""
        if not is_old or not self.levels:
            return SUPPORTED_FEATURES
        return tuple(
            feature._replace(highest=self.levels[feature.name])
            if feature.name == METADATA_VERSION
            else feature
            for feature in SUPPORTED_FEATURES
        )


def draw_levels(random: Random) -> dict[str, int]:
    """Draw arguments of `format` until they are valid; return the levels that they mean."""
    while True:
        try:
            return initial_feature_levels(_draw_release(random), _draw_changed(random))
        except ValueError:
            continue


def _draw_release(random: Random) -> str | None:
    name = random.choice(METADATA_VERSIONS).name
    return random.choice((None, name, name, name.partition("-")[0], "1.0"))


def _draw_changed(random: Random) -> dict[str, int]:
    """Draw levels of single features, a few of them invalid."""
    changed = {
        feature.name: random.randint(feature.lowest, feature.highest + (random.random() < 0.1))
        for feature in SUPPORTED_FEATURES
        if random.random() < 0.3
    }
    return {**changed, "unknown": 1} if random.random() < 0.05 else changed


def draw_credentials(random: Random) -> tuple[str, ...]:
    """Draw arguments of `format --add-scram` until they are valid."""
    while True:
        drawn = tuple(_draw_credential(random) for _ in range(1 + random.randrange(2)))
        try:
            for each in drawn:
                parse_credential(each, _salt)
        except ValueError:
            continue
        return drawn


def _draw_credential(random: Random) -> str:
    password = random.choice(("password=secret", 'password="a=b"', "saltedpassword=YCE="))
    parts = [f"name={random.choice(('alice', 'bob', 'carol', ''))}", password]
    if random.random() < 0.7 or password.startswith("salted"):
        parts.append(random.choice(("salt=N3E=", "salt=N3E", "salt=N3E=", "salt=!")))
    if random.random() < 0.5:
        parts.append(f"iterations={random.choice((4096, 4097, 4096, 1, 'many'))}")
    if random.random() < 0.1:
        parts.append(random.choice(("name=twice", "saltedpassword=YCE=", "color=red", "empty")))
    mechanism = random.choice(("SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"))
    return f"{mechanism}=[{','.join(parts)}]" if random.random() < 0.95 else mechanism


def _salt() -> bytes:
    return b"salt of the cluster"
