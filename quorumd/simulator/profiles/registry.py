"""All profiles by name: one for everything, others for one kind of trouble each."""

from __future__ import annotations

from quorumd.simulator.profiles.brokers import BROKER_PROFILES
from quorumd.simulator.profiles.profile import Profile
from quorumd.simulator.profiles.quorum import QUORUM_PROFILES

DEFAULT = "swarm"
VOTER_CHANGE = "voter change"

ALL = Profile(
    "swarm",
    "Any mix of everything, each seed another.",
    brokers=(0,) * 38 + (3, 4),
    stock_voters=(0,) * 14 + (1, 2),
    registrations=0.1,
)

PROFILES: dict[str, Profile] = {
    profile.name: profile for profile in (ALL, *QUORUM_PROFILES, *BROKER_PROFILES)
}
