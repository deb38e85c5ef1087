"""Facts about a request besides its message and version, for the planners that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.ids import KafkaUuid
from quorumd.ports import ANONYMOUS
from quorumd.quotas.client_quotas import MutationQuota


class Requester(NamedTuple):
    """The client that sends a request. `is_token`: whether it authenticated with a token itself."""

    principal: str = ANONYMOUS
    is_token: bool = False

    @property
    def may_use_tokens(self) -> bool:
        """Only a client that proved its identity otherwise can have tokens."""
        return self.principal != ANONYMOUS and not self.is_token


class PartContext(NamedTuple):
    """The place of a message in the request that it is a part of; the defaults are those of a whole request.

    `total`: the new partitions of the whole request, None if they are those of the message. `is_of_all`: whether
    the whole request names no partitions and means all. `prepared`: the partitions of the only topic of the message,
    None if they are not prepared. `selected_ids`: the ids that each filter of the message selects, None if the
    planner selects them.
    """

    total: int | None = None
    is_of_all: bool = False
    prepared: PreparedPartitions | None = None
    selected_ids: Sequence[Sequence[KafkaUuid]] | None = None


WHOLE_REQUEST: Final = PartContext()


class RequestContext(NamedTuple):
    """The sender of a request, and the part of it that is planned.

    `comes_from_broker`: whether the forwarding broker has done the checks that only brokers can do. `quota`: the
    controller mutation quota of the client, None if it has none or the API is not subject to it.
    """

    requester: Requester = Requester()
    comes_from_broker: bool = False
    quota: MutationQuota | None = None
    part: PartContext = WHOLE_REQUEST


@lru_cache(maxsize=1024)
def sender_context(principal: str, is_token: bool, comes_from_broker: bool) -> RequestContext:
    """The context of whole requests of one sender without a quota, which is the same for all of them."""
    return RequestContext(Requester(principal, is_token), comes_from_broker)


NO_CONTEXT: Final = RequestContext()
"""A whole request of an anonymous client without a quota."""
