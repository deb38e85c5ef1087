"""Splits large requests to the controller into parts, so that none blocks the event loop for long.

Each part is a request of its own: it is planned and appended atomically, and other work runs between two parts.
Kafka's admin APIs guarantee no more: every topic, partition or resource has its own result. Some items stay in one
part: a topic with all its new partitions, and duplicates by name, which are an error. Duplicate partitions in
different parts are planned one after the other. Limits on the whole request, such as the number of new partitions,
are computed before it is split and passed to the planner of each part.

The records of a reassignment or election are the same as without splitting, except for the effects of other requests
between two parts: each partition is planned against the image of its moment. If leadership is lost between two parts,
the earlier parts may have taken effect and the later ones have not; the client gets NOT_CONTROLLER, as for a batch
whose commit is unknown, and retries the request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from quorumd.controller.controller import Controller
from quorumd.controller.elections import partitions_to_elect
from quorumd.controller.partition_creation import prepare_growth, requested_growth, total_requested_growth
from quorumd.controller.preparation import Preparation
from quorumd.controller.reassignments import partitions_under_way
from quorumd.controller.topic_creation import prepare_topic, requested_partitions, total_requested_partitions
from quorumd.controller.topic_deletion import as_named, named_topic
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.elect_leaders_request import TopicPartitions
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsTopics
from quorumd.protocol.wire import Message, MessageStruct

MAX_PARTITIONS_PER_PART = 250
"""The number of partitions of one request that are changed at once: some milliseconds of work."""
_REMOVALS = 8
"""Partitions of a topic that can be removed in the time of one change."""
_DESCRIPTION = 8
"""Partitions that can be changed in the time it takes to describe the configs of one resource."""

Numbers = dict[str, list[int]]
_Run = tuple[tuple[object, ...], list[object]]
"""The items that contain a list, and the list."""


class Division(NamedTuple):
    """How requests of an API are split.

    `request_path`, `response_path`: the fields of request and response that lead to the items to split, each a list
    in the items of the previous field. `cost`: the cost of an item in partitions; a number if all cost the same.
    `name`: items with the same name stay in one part. `total`: a figure of the whole request for the planner of each
    part. `prepare`: the preparation of a part that is large by itself. `everything`: the partition numbers by topic
    that a request without names means, with None where another task should have a turn; `topic` builds the item of
    such a topic.
    """

    request_path: tuple[str, ...]
    response_path: tuple[str, ...]
    cost: int | Callable[[Controller, Any], int] = 1
    name: Callable[[Controller, Any], Hashable] | None = None
    total: Callable[[Controller, Any], int] | None = None
    prepare: Callable[[Controller, Any], Preparation] | None = None
    everything: Callable[[Controller, Any, int], Iterator[Numbers | None] | None] | None = None
    topic: Callable[[str, list[int]], Any] | None = None


class RequestPart(NamedTuple):
    """`continued`: the number of items on the path to its first item that the previous part began. `options`: for its
    planner."""

    message: Message
    continued: int = 0
    options: dict[str, Any] = {}
    prepare: Callable[[Controller, Any], Preparation] | None = None


def parts_of(
    controller: Controller, request: Request[Message], max_partitions: int
) -> Iterator[RequestPart | None] | None:
    """The parts of a request, each with about `max_partitions`; None if the request is not large.

    Parts are built lazily; None is yielded where another task should have a turn.
    """
    division = DIVISIONS.get(request.api_key)
    if division is None:
        return None
    message = request.message
    name = division.request_path[0]
    items = getattr(message, name)
    if items is None:
        assert division.everything is not None
        found = division.everything(controller, message, max_partitions)
        return None if found is None else _of_everything(message, division, found)
    if not items and request.api_key == ApiKey.DELETE_TOPICS:
        name = "topic_names"
        items = getattr(message, name)
    if len(division.request_path) > 1:
        if _size(items, division.request_path[1:], max_partitions) <= max_partitions:
            return None
        return _nested(message, division.request_path, items, max_partitions)
    cost = division.cost
    if isinstance(cost, int):
        if cost * len(items) <= max_partitions:
            return None
        costs = [cost] * len(items)
    else:
        costs = [cost(controller, item) for item in items]
        if sum(costs) <= max_partitions:
            return None
    return _listed(controller, message, division, name, list(zip(items, costs, strict=True)), max_partitions)


def _size(items: Sequence[object], path: Sequence[str], enough: int) -> int:
    """Count the items at the end of the path; an empty one counts as 1."""
    if not path:
        return max(1, len(items))
    size = 0
    for item in items:
        size += _size(getattr(item, path[0]), path[1:], enough)
        if size > enough:
            break
    return size


def _listed(
    controller: Controller,
    message: Message,
    division: Division,
    field: str,
    items: Sequence[tuple[object, int]],
    max_partitions: int,
) -> Iterator[RequestPart]:
    """Parts of a list whose items are not split themselves."""
    total = division.total
    options = {} if total is None else {"total": total(controller, message)}
    together: dict[Hashable, list[tuple[object, int]]] = {}
    for position, (item, cost) in enumerate(items):
        name = division.name(controller, item) if division.name is not None else position
        together.setdefault(name, []).append((item, cost))
    group: list[object] = []
    budget = max_partitions
    for named in together.values():
        cost = sum(each for _, each in named)
        if group and cost > budget:
            yield RequestPart(_with(message, field, group), 0, options)
            group, budget = [], max_partitions
        group += (item for item, _ in named)
        budget -= cost
        if budget < 0 and len(group) == 1:
            yield RequestPart(_with(message, field, group), 0, options, division.prepare)
            group, budget = [], max_partitions
    if group:
        yield RequestPart(_with(message, field, group), 0, options)


def _nested(
    message: Message, path: Sequence[str], items: Sequence[object], max_partitions: int
) -> Iterator[RequestPart]:
    """Parts of nested lists."""
    group: list[_Run] = []
    before: tuple[object, ...] = ()
    budget = max_partitions
    for above, inner in _runs(items, path[1:]):
        begin = 0
        while begin < len(inner):
            if not budget:
                yield RequestPart(
                    _with(message, path[0], _rebuilt(group, path[1:])), _shared(before, group[0][0])
                )
                before, group, budget = group[-1][0], [], max_partitions
            taken = inner[begin : begin + budget]
            group.append((above, taken))
            begin += len(taken)
            budget -= len(taken)
    yield RequestPart(_with(message, path[0], _rebuilt(group, path[1:])), _shared(before, group[0][0]))


def _runs(items: Iterable[object], path: Sequence[str], above: tuple[object, ...] = ()) -> Iterator[_Run]:
    """The lists at the end of the path, and each item on the path whose list is empty as a list of its own."""
    for item in items:
        inner = getattr(item, path[0])
        if not inner:
            yield above, [item]
        elif len(path) == 1:
            yield (*above, item), inner
        else:
            yield from _runs(inner, path[1:], (*above, item))


def _shared(before: tuple[object, ...], above: tuple[object, ...]) -> int:
    """The number of leading items that both have in common."""
    count = 0
    for one, other in zip(before, above, strict=False):
        if one is not other:
            break
        count += 1
    return count


def _rebuilt(runs: Iterable[_Run], path: Sequence[str]) -> list[object]:
    """Rebuild the items with only these lists in them."""
    whole: list[object] = []
    before: tuple[object, ...] = ()
    for above, taken in runs:
        shared = _shared(before, above)
        inner = whole
        for depth, item in enumerate(above):
            if depth >= shared:
                piece = copy(item)
                setattr(piece, path[depth], [])
                inner.append(piece)
            inner = getattr(inner[-1], path[depth])
        inner += taken
        before = above
    return whole


def _of_everything(
    message: Message, division: Division, found: Iterator[Numbers | None]
) -> Iterator[RequestPart | None]:
    """Parts of a request without names; at least one."""
    assert division.topic is not None
    options = {"of_all": True}
    last = ""
    for numbers in found:
        if numbers is None:
            yield None
            continue
        topics = [division.topic(name, those) for name, those in numbers.items()]
        continued = 1 if last in list(numbers)[:1] else 0
        last = list(numbers)[-1]
        yield RequestPart(_with(message, division.request_path[0], topics), continued, options)
    if not last:
        yield RequestPart(_with(message, division.request_path[0], []), 0, options)


def _with(message: Message, field: str, items: list[object]) -> Message:
    part = copy(message)
    setattr(part, field, items)
    return part


def merge(division: Division, parts: Sequence[RequestPart], responses: Sequence[Message]) -> Message:
    """Merge the responses to the parts. The top-level error of a part becomes that of the whole response."""
    for response in responses:
        if getattr(response, "error_code", 0):
            return response
    whole = copy(responses[0])
    path = division.response_path
    items: list[object] = []
    for part, response in zip(parts, responses, strict=True):
        _join(items, getattr(response, path[0]), path[1:], part.continued)
    setattr(whole, path[0], items)
    throttle_ms = max(getattr(response, "throttle_time_ms") for response in responses)  # noqa: B009 - not declared
    setattr(whole, "throttle_time_ms", throttle_ms)  # noqa: B010 - not declared
    return whole


def _join(items: list[object], following: Sequence[object], path: Sequence[str], continued: int) -> None:
    """Append the following items; the first of them may continue the last item."""
    if continued and path and items and following and _are_one(items[-1], following[0], path[0]):
        _join(getattr(items[-1], path[0]), getattr(following[0], path[0]), path[1:], continued - 1)
        following = following[1:]
    items += following


def _are_one(item: object, other: object, but: str) -> bool:
    """Whether both items are equal apart from the field `but`: a response need not contain all items."""
    assert isinstance(item, MessageStruct)
    return all(name == but or getattr(item, name) == getattr(other, name) for name in item.__slots__)


def _resource(controller: Controller, requested: Any) -> Hashable:
    del controller
    return (requested.resource_type, requested.resource_name)


def _topic_name(controller: Controller, requested: Any) -> Hashable:
    del controller
    name: str = requested.name
    return name


_ALTERED: Final = Division(("resources",), ("responses",), 2, _resource)

DIVISIONS: Final[dict[int, Division]] = {
    ApiKey.CREATE_TOPICS: Division(
        ("topics",),
        ("topics",),
        lambda controller, requested: 1 + requested_partitions(controller, requested),
        _topic_name,
        total_requested_partitions,
        prepare_topic,
    ),
    ApiKey.DELETE_TOPICS: Division(
        ("topics",),
        ("responses",),
        lambda controller, requested: 1 + _partitions_of(controller, requested) // _REMOVALS,
        lambda controller, requested: _identity(controller, requested),
    ),
    ApiKey.CREATE_PARTITIONS: Division(
        ("topics",),
        ("results",),
        lambda controller, requested: 1 + requested_growth(controller, requested),
        _topic_name,
        total_requested_growth,
        prepare_growth,
    ),
    ApiKey.ALTER_CONFIGS: _ALTERED,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTERED,
    ApiKey.DESCRIBE_CONFIGS: Division(("resources",), ("results",), _DESCRIPTION),
    ApiKey.ALTER_PARTITION: Division(("topics", "partitions"), ("topics", "partitions")),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Division(("topics", "partitions"), ("responses", "partitions")),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Division(
        ("topics", "partition_indexes"),
        ("topics", "partitions"),
        everything=partitions_under_way,
        topic=ListPartitionReassignmentsTopics,
    ),
    ApiKey.ELECT_LEADERS: Division(
        ("topic_partitions", "partitions"),
        ("replica_election_results", "partition_result"),
        everything=partitions_to_elect,
        topic=TopicPartitions,
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Division(
        ("directories", "topics", "partitions"), ("directories", "topics", "partitions")
    ),
}


def _partitions_of(controller: Controller, requested: Any) -> int:
    topic = named_topic(controller.image, requested)
    return 0 if topic is None else len(topic.partitions)


def _identity(controller: Controller, requested: Any) -> Hashable:
    """The identity of a topic, which a request may name both by name and by id."""
    topic = named_topic(controller.image, requested)
    return topic.id if topic is not None else as_named(requested)
