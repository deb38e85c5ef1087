"""Handles large requests to a broker in parts, one per iteration of the event loop.

Each part is handled like a request of its own: its rights are checked, its items are looked up or changed. Kafka's
clients rely on no more, since every item has its own result. Four things differ: what a request describes several
times (`DESCRIBED_ONCE`) has one description, since a short name would otherwise get megabytes each time, a
partition that a ListOffsets request names in two parts gets two results instead of INVALID_REQUEST, a Produce
response contains the endpoints of new leaders (KIP-951) only for its first part, and offsets are committed in one
batch per part.

AddPartitionsToTxn adds all partitions to a transaction or none, and requests of members of groups have one effect, so
they are handled as a whole, and refused if they have too many items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from quorumd.broker.api.transactions import MAX_PARTITIONS_ADDED, refuse_partitions
from quorumd.controller.request_context import PartContext
from quorumd.errors import ErrorCode
from quorumd.node.api.large_requests import SplitRequestTask
from quorumd.node.sessions.repeated_items import Level, keep_once
from quorumd.node.sessions.request_splitting import RequestPart, SplitRule, parts_of_lists
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.response_errors import top_level_error
from quorumd.protocol.routes import Handler, Route, Session
from quorumd.protocol.wire import Message

_PARTITIONS: Final = SplitRule(("topics", "partitions"), ("topics", "partitions"))

BROKER_SPLIT_RULES: Final[dict[int, tuple[SplitRule, ...]]] = {
    ApiKey.PRODUCE: (SplitRule(("topic_data", "partition_data"), ("responses", "partition_responses")),),
    ApiKey.LIST_OFFSETS: (_PARTITIONS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_PARTITIONS,),
    ApiKey.DELETE_RECORDS: (_PARTITIONS,),
    ApiKey.DESCRIBE_PRODUCERS: (SplitRule(("topics", "partition_indexes"), ("topics", "partitions")),),
    ApiKey.OFFSET_FETCH: (
        SplitRule(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        SplitRule(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    ApiKey.FIND_COORDINATOR: (SplitRule(("coordinator_keys",), ("coordinators",)),),
    ApiKey.DESCRIBE_GROUPS: (SplitRule(("groups",), ("groups",)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (SplitRule(("group_ids",), ("groups",)),),
    ApiKey.DELETE_GROUPS: (SplitRule(("groups_names",), ("results",)),),
    ApiKey.DESCRIBE_TRANSACTIONS: (SplitRule(("transactional_ids",), ("transaction_states",)),),
    ApiKey.OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.TXN_OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.OFFSET_DELETE: (_PARTITIONS,),
    ApiKey.WRITE_TXN_MARKERS: (
        SplitRule(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (SplitRule(("dirs", "topics", "partitions"), ("results", "partitions")),),
}
"""By API, one rule for each list of items that a request may have, depending on its version."""


_NUMBERS: Final[Level] = ("partition_indexes", ())
DESCRIBED_ONCE: Final[dict[int, tuple[Sequence[Level], ...]]] = {
    ApiKey.DESCRIBE_GROUPS: ((("groups", ()),),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((("group_ids", ()),),),
    ApiKey.DESCRIBE_TRANSACTIONS: ((("transactional_ids", ()),),),
    ApiKey.DESCRIBE_PRODUCERS: ((("topics", ("name",)), _NUMBERS),),
    ApiKey.OFFSET_FETCH: (
        (("groups", ("group_id",)), ("topics", ("name", "topic_id")), _NUMBERS),
        (("topics", ("name",)), _NUMBERS),
    ),
}
"""By API, the lists of items that are described once however often a request contains them."""


class WholeRule(NamedTuple):
    """Describes the requests of an API that have one effect as a whole."""

    lists: tuple[SplitRule, ...]
    """The lists of items, as in `BROKER_SPLIT_RULES`."""
    max_items: int
    refuse: Handler[Message]
    """Refuses each part of a request with more items."""


MAX_OF_MEMBER: Final = 10_000
"""Topics, partitions or protocols of a member, and members in a request: twice as many as a group may have."""


def _refuse(session: Session, request: Request[Message]) -> None:
    session.respond(request, top_level_error(request.api_key, ErrorCode.INVALID_REQUEST))


WHOLE_RULES: Final[dict[int, WholeRule]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: WholeRule(
        (
            SplitRule(
                ("transactions", "topics", "partitions"),
                ("results_by_transaction", "topic_results", "results_by_partition"),
            ),
            SplitRule(
                ("v3_and_below_topics", "partitions"),
                ("results_by_topic_v3_and_below", "results_by_partition"),
            ),
        ),
        MAX_PARTITIONS_ADDED,
        refuse_partitions,
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: WholeRule(
        (SplitRule(("subscribed_topic_names",), ()), SplitRule(("topic_partitions", "partitions"), ())),
        MAX_OF_MEMBER,
        _refuse,
    ),
    ApiKey.JOIN_GROUP: WholeRule((SplitRule(("protocols",), ()),), MAX_OF_MEMBER, _refuse),
    ApiKey.SYNC_GROUP: WholeRule((SplitRule(("assignments",), ()),), MAX_OF_MEMBER, _refuse),
    ApiKey.LEAVE_GROUP: WholeRule((SplitRule(("members",), ()),), MAX_OF_MEMBER, _refuse),
}


def handled_in_parts(
    route: Route, scheduler: SliceScheduler, max_items: int = MAX_PARTITIONS_PER_PART
) -> Handler[Message]:
    """Return the handler of a route that handles requests with more than `max_items` in parts, while later requests
    of the session wait. Requests with too many items for one effect are refused."""
    handler, rules = route.handler, BROKER_SPLIT_RULES.get(route.api_key, ())
    handle_part = handler
    described = DESCRIBED_ONCE.get(route.api_key, ())
    if route.api_key in WHOLE_RULES:
        rules, max_items, handle_part = WHOLE_RULES[route.api_key]
    if not rules:
        return handler

    def execute(session: Session, part: Request[Message], context: PartContext) -> None:
        del context
        handle_part(session, part)

    def not_leader(no_effect: bool) -> None:
        raise AssertionError("a broker handles its requests itself")

    def handle(session: Session, request: Request[Message]) -> None:
        message = request.message
        for rule in rules:
            parts: Iterator[RequestPart | None] | None = parts_of_lists(message, rule, max_items)
            if parts is not None:
                parts = _parts_once(message, rule, described, max_items) if described else parts
                task = SplitRequestTask(session, request, rule, parts, scheduler, execute, not_leader)
                session.block(request, task.cancel)
                scheduler.begin(task)
                return
        for levels in described:
            deque(keep_once(message, levels), maxlen=0)
        handler(session, request)

    return handle


def _parts_once(
    message: Message, rule: SplitRule, described: Iterable[Sequence[Level]], max_items: int
) -> Iterator[RequestPart | None]:
    """Yield the parts of a request without repeated items, and None where other tasks should run."""
    for position, _ in enumerate(chain.from_iterable(keep_once(message, levels) for levels in described), 1):
        if position % max_items == 0:
            yield None
    parts = parts_of_lists(message, rule, max_items)
    yield from iter((RequestPart(message),)) if parts is None else parts
