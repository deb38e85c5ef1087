"""The listener with SASL that nodes have for clients that log in, and the users of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from quorumd.ids import Endpoint
from quorumd.node.settings import NodeListener, NodeSettings
from quorumd.security.sasl.plain import PLAIN
from quorumd.security.sasl.scram import BY_NAME, MIN_ITERATIONS, salted_password
from quorumd.security.sasl.settings import ListenerSasl, ServerSasl
from quorumd.simulator.options import SimulationOptions

LISTENER: Final = "CLIENTS"
PORT: Final = 9096
SASL_PLAINTEXT: Final = 2
USERS: Final = ("carl", "dora")
"""The users that log in. No other workload has users with these names."""
PRINCIPALS: Final = tuple(f"User:{user}" for user in USERS)
PASSWORDS: Final = 3
"""Number of passwords that a user may have for SCRAM."""
LIFETIMES_MS: Final = {PLAIN: 1500, "SCRAM-SHA-256": 2500}
"""How long a login is valid, by mechanism; without limit for other mechanisms."""
SECRET: Final = "simulated secret"
TOKEN_EXPIRY_MS: Final = 2000
TOKEN_LIFETIME_MS: Final = 6000
TOKEN_CHECK_MS: Final = 700.0
_NEVER_MS: Final = 1e9


def plain_password(user: str) -> str:
    """The password of a user for PLAIN, which never changes."""
    return f"{user}-plain"


def scram_password(user: str, number: int) -> str:
    """One of the passwords that a user may have for SCRAM."""
    return f"{user}-{number}"


def salt_of(user: str, number: int) -> bytes:
    """The salt of a password: always the same, since salting takes milliseconds of real time."""
    return f"salt of {user} {number}".encode()


@lru_cache(maxsize=64)
def salted(mechanism: str, user: str, number: int) -> bytes:
    """A salted password, for the controller."""
    password = scram_password(user, number)
    return salted_password(BY_NAME[mechanism], password, salt_of(user, number), MIN_ITERATIONS)


SASL: Final[Mapping[str, ListenerSasl]] = {
    LISTENER: ListenerSasl(
        ServerSasl(
            (PLAIN, *BY_NAME),
            {user: plain_password(user) for user in USERS},
            max_reauth_ms=LIFETIMES_MS,
        )
    )
}


def with_client_listener(settings: NodeSettings, options: SimulationOptions) -> NodeSettings:
    """Add the listener to the settings of a node, and delegation tokens that expire within seconds. Expired tokens
    are removed unless that removes kept records, or appends to an idle log."""
    endpoint = Endpoint(LISTENER, settings.listen.host, PORT)
    keeps_tokens = options.kept_records_ms > 0 or options.idle_interval_ms > 0
    return replace(
        settings,
        other_listeners=(NodeListener(endpoint, endpoint),),
        security_protocols={LISTENER: SASL_PLAINTEXT},
        token_secret_key=SECRET,
        controller=replace(
            settings.controller,
            token_secret_key=SECRET,
            token_expiry_ms=TOKEN_EXPIRY_MS,
            token_max_lifetime_ms=TOKEN_LIFETIME_MS,
            token_check_interval_ms=_NEVER_MS if keeps_tokens else TOKEN_CHECK_MS,
        ),
    )
