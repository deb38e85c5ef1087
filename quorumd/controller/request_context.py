"""The context of a request, for planners that depend on more than its message and version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.ids import KafkaUuid
from quorumd.ports import ANONYMOUS
from quorumd.quotas.client_quotas import MutationQuota


class Requester(NamedTuple):
    """The client that sends a request. `is_token`: whether it authenticated with a delegation token."""

    principal: str = ANONYMOUS
    is_token: bool = False

    @property
    def may_use_tokens(self) -> bool:
        """Whether the client may create and manage tokens: if it authenticated, but not with a token."""
        return self.principal != ANONYMOUS and not self.is_token


class PartContext(NamedTuple):
    """The part of a divided request that a message is; the defaults are those of a request that is not divided.

    `total`: number of new partitions of the whole request, None if the message is the whole. `is_of_all`: whether the
    whole request is for all partitions. `prepared`: the partitions of the only topic of the message, None if they are
    not prepared. `selected_ids`: the ids that each filter of the message selects, None if the planner selects them.
    `limit`: the number of partitions that the part may change, None for the last part, which completes the request.
    """

    total: int | None = None
    is_of_all: bool = False
    prepared: PreparedPartitions | None = None
    selected_ids: Sequence[Sequence[KafkaUuid]] | None = None
    limit: int | None = None


WHOLE_REQUEST: Final = PartContext()


class RequestContext(NamedTuple):
    """The sender of a request, and the part of it that is planned.

    `comes_from_broker`: whether a broker forwarded the request, after the checks that only brokers can make. `quota`:
    the controller mutation quota of the client, None if it has none or the API is not subject to it.
    """

    requester: Requester = Requester()
    comes_from_broker: bool = False
    quota: MutationQuota | None = None
    part: PartContext = WHOLE_REQUEST


@lru_cache(maxsize=1024)
def sender_context(principal: str, is_token: bool, comes_from_broker: bool) -> RequestContext:
    """Return the context of all undivided requests of one sender without a quota."""
    return RequestContext(Requester(principal, is_token), comes_from_broker)


NO_CONTEXT: Final = RequestContext()
"""The context of an undivided request of an anonymous client without a quota."""
