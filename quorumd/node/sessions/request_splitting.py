"""Splits large requests to the controller into parts, so that none blocks the event loop for long.

Each part is planned and appended atomically like a request of its own; other work runs between two parts. Kafka's
admin APIs guarantee no more: every topic, partition or resource has its own result. Some items stay in the same part:
a topic with all its new partitions, and items with the same name, which are an error: if there are many, they are
divided so that each part still has two of them. Duplicate partitions in different parts are planned one after the
other. Limits on the whole request, such as the number of new partitions, are computed before it is split.

The records of a reassignment or election are the same as without splitting, except for the effects of other requests
between two parts: each part is planned against the image at its time. If leadership is lost between two parts, the
earlier ones may have taken effect; the client gets NOT_CONTROLLER, as if the commit of a batch is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from quorumd.controller.acl_requests import acls_to_delete
from quorumd.controller.broker_registration import partitions_to_unregister
from quorumd.controller.client_quotas import entity_of
from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.controller.controller import Controller
from quorumd.controller.elections import partitions_to_elect
from quorumd.controller.partition_creation import prepare_growth, requested_growth
from quorumd.controller.preparation import Preparation
from quorumd.controller.reassignments import reassigning_partitions
from quorumd.controller.request_context import WHOLE_REQUEST, PartContext
from quorumd.controller.topic_creation import new_partitions, prepare_topic, requested_partitions
from quorumd.controller.topic_deletion import as_named, named_topic
from quorumd.ids import KafkaUuid
from quorumd.node.sessions.repeated_items import first_two, in_pieces, together
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.delete_topics_request import DeleteTopicState
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsResource
from quorumd.protocol.messages.elect_leaders_request import TopicPartitions
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsTopics
from quorumd.protocol.wire import Message

_REMOVALS_PER_CHANGE = 8
"""Partitions of a topic that can be removed in the time of one change."""
ITEMS_PER_SLICE: Final = 1000
"""Items that are grouped or counted between two iterations of the event loop: one or two milliseconds."""
_RESOURCE_COST = 2
"""Cost of changing one config of one resource, in changed partitions."""
_CONFIGS_PER_CHANGE = 4
"""Further configs of a resource that can be changed in the time of one changed partition."""
_DESCRIBE_COST = 16
"""Cost of describing the configs of one resource, in changed partitions."""
_KEYS_PER_CHANGE = 100
"""Names of configs that can be compared in the time of one changed partition."""

Numbers = dict[str, list[int]]
_Run = tuple[tuple[object, ...], list[object]]
"""The items that contain a list, and the list."""
Selection = tuple[object, Sequence[KafkaUuid]]
"""An item, and the ids of what it selects."""
_Listed = tuple[str, object]
"""The field of a list, and an item in it."""


class SplitRule(NamedTuple):
    """Describes how requests of an API are split."""

    request_path: tuple[str, ...]
    """The fields of the request that lead to the items to split, each a list in the items of the previous field."""
    response_path: tuple[str, ...]
    """The fields of the response that lead to the results of the items."""
    cost: int | Callable[[Controller, Any], int] = 1
    """The cost of an item in partitions; a number if all items cost the same."""
    name: Callable[[Controller, Any], Hashable] | None = None
    """Items with the same name stay in one part, or are divided by `repeated`."""
    repeated: Callable[[Sequence[_Listed], int], Iterator[Sequence[_Listed]]] = together
    mention: Callable[[Any], Hashable] | None = None
    """Equal mentions of an item have one result, an error, so that one is enough next to others, and two alone."""
    growth: Callable[[Controller, Any], int] | None = None
    """The number of partitions that an item would create; the planner of each part gets that of the whole request."""
    prepare: Callable[[Controller, Any], Preparation] | None = None
    """The preparation of a part with a single large item."""
    expand: Callable[[Controller, Any, int], Iterator[Numbers | None] | None] | None = None
    """The partition numbers by topic of a request for all topics, with None where other tasks should run."""
    topic: Callable[[str, list[int]], Any] | None = None
    """Builds the item of a topic that `expand` returned."""
    also: str = ""
    """The field of a second list next to the first, if the path has one field."""
    select: Callable[[Controller, Any, int], Iterator[Sequence[Selection]] | None] | None = None
    """The items of each part, with the ids of what each item selects."""
    changes: Callable[[Controller, Message], int] | None = None
    """The number of partitions that a request without items changes; each part is the whole request with a limit."""

    describes: bool = False
    """Whether items get kilobytes of response: few parts wait for their read at once, and each is encoded alone."""

    @property
    def is_plain(self) -> bool:
        """Whether the items that a request names are independent of each other and of what the controller knows."""
        special = (self.name, self.growth, self.prepare, self.select)
        return isinstance(self.cost, int) and not self.also and special == (None,) * len(special)

    def cost_of(self, controller: Controller, item: object) -> int:
        """The cost of an item in partitions."""
        return self.cost if isinstance(self.cost, int) else self.cost(controller, item)


class RequestPart(NamedTuple):
    """A part of a request."""

    message: Message
    continued: int = 0
    """The number of items on the path to the part's first item that the previous part has begun."""
    context: PartContext = WHOLE_REQUEST
    """The context that is passed to the planner."""
    prepare: Callable[[], Preparation] | None = None


def parts_of(
    controller: Controller, request: Request[Message], max_partitions: int
) -> Iterator[RequestPart | None] | None:
    """The parts of a request, each with about `max_partitions`; None if the request is not large.

    Parts are built lazily; None is yielded where other tasks should run.
    """
    rule = SPLIT_RULES.get(request.api_key)
    if rule is None:
        return None
    message = request.message
    if rule.changes is not None:
        changes = rule.changes(controller, message)
        return None if changes <= max_partitions else _limited_parts(message, changes, max_partitions)
    name = rule.request_path[0]
    items = getattr(message, name)
    if items is None:
        assert rule.expand is not None
        found = rule.expand(controller, message, max_partitions)
        return None if found is None else _expanded_parts(message, rule, found)
    if rule.select is not None:
        selections = rule.select(controller, message, max_partitions)
        return None if selections is None else _selected_parts(message, rule, selections)
    if rule.is_plain:
        return parts_of_lists(message, rule, max_partitions)
    if _is_small(controller, message, rule, max_partitions):
        return None
    return _flat_parts(controller, message, rule, max_partitions)


def parts_of_lists(message: Message, rule: SplitRule, max_items: int) -> Iterator[RequestPart] | None:
    """As `parts_of`, for a plain rule (`SplitRule.is_plain`)."""
    path = rule.request_path
    items = getattr(message, path[0])
    assert isinstance(rule.cost, int)
    if _size(items, path[1:], max_items) * rule.cost <= max_items:
        return None
    if len(path) > 1:
        return _nested_parts(message, path, items, max_items)
    taken = max(1, max_items // rule.cost)
    pieces = (items[begin : begin + taken] for begin in range(0, len(items), taken))
    return (RequestPart(_copy_with(message, path[0], piece)) for piece in pieces)


def _size(items: Sequence[object] | None, path: Sequence[str], limit: int) -> int:
    """Count the items at the end of the path; an empty list on it counts as 1, and null, everything, as a part."""
    if not path or not items:
        return max(1, len(items or ()))
    size = 0
    for item in items:
        inner = getattr(item, path[0])
        size += limit if inner is None else _size(inner, path[1:], limit)
        if size > limit:
            break
    return size


def _listed(message: Message, rule: SplitRule) -> Iterator[_Listed]:
    """The items of both lists."""
    for field in (rule.request_path[0], rule.also):
        for item in getattr(message, field) if field else ():
            yield field, item


def _is_small(controller: Controller, message: Message, rule: SplitRule, max_partitions: int) -> bool:
    if isinstance(rule.cost, int) and not rule.also:
        return len(getattr(message, rule.request_path[0])) * rule.cost <= max_partitions
    left = max_partitions
    for _, item in _listed(message, rule):
        left -= rule.cost_of(controller, item)
        if left < 0:
            return False
    return True


def _by_name(
    controller: Controller, message: Message, rule: SplitRule
) -> Generator[None, None, list[list[_Listed]]]:
    """Return the items grouped by their names, in slices."""
    groups: dict[Hashable, list[_Listed]] = {}
    mentions: dict[Hashable, int] = {}
    for position, listed in enumerate(_listed(message, rule), 1):
        name = rule.name(controller, listed[1]) if rule.name is not None else position
        mention = rule.mention(listed[1]) if rule.mention is not None else position
        mentions[mention] = mentions.get(mention, 0) + 1
        group = groups.setdefault(name, [])
        if mentions[mention] <= 2 - (len(group) > 1):
            group.append(listed)
        if position % ITEMS_PER_SLICE == 0:
            yield
    return list(groups.values())


def _total_growth(
    controller: Controller, rule: SplitRule, groups: Sequence[Sequence[_Listed]]
) -> Generator[None, None, PartContext]:
    """Return the context with the number of new partitions of all items, in slices. Items with the same name are
    rejected."""
    if rule.growth is None:
        return WHOLE_REQUEST
    total = 0
    for position, named in enumerate(groups, 1):
        if len(named) == 1:
            total += rule.growth(controller, named[0][1])
        if position % ITEMS_PER_SLICE == 0:
            yield
    return PartContext(total=total)


def _flat_parts(
    controller: Controller, message: Message, rule: SplitRule, max_partitions: int
) -> Iterator[RequestPart | None]:
    """Yield the parts of a list whose items are not split themselves."""
    groups = yield from _by_name(controller, message, rule)
    context = yield from _total_growth(controller, rule, groups)
    group: list[_Listed] = []
    budget = max_partitions
    for named in (piece for each in groups for piece in rule.repeated(each, max_partitions)):
        cost = sum(rule.cost_of(controller, item) for _, item in named)
        if group and cost > budget:
            yield RequestPart(_copy_of_listed(message, rule, group), 0, context)
            group, budget = [], max_partitions
        group += named
        budget -= cost
        if budget < 0 and len(group) == 1:
            part = _copy_of_listed(message, rule, group)
            prepare = None if rule.prepare is None else partial(rule.prepare, controller, part)
            yield RequestPart(part, 0, context, prepare)
            group, budget = [], max_partitions
    if group:
        yield RequestPart(_copy_of_listed(message, rule, group), 0, context)


def _nested_parts(
    message: Message, path: Sequence[str], items: Sequence[object], max_partitions: int
) -> Iterator[RequestPart]:
    """Yield the parts of nested lists."""
    group: list[_Run] = []
    before: tuple[object, ...] = ()
    budget = max_partitions
    for above, inner in _runs(items, path[1:]):
        begin = 0
        while begin < len(inner):
            if not budget:
                yield RequestPart(
                    _copy_with(message, path[0], _rebuilt(group, path[1:])), _shared(before, group[0][0])
                )
                before, group, budget = group[-1][0], [], max_partitions
            taken = inner[begin : begin + budget]
            group.append((above, taken))
            begin += len(taken)
            is_null = len(above) < len(path) - 1 and getattr(taken[0], path[len(above) + 1]) is None
            budget = 0 if is_null else budget - len(taken)
    yield RequestPart(_copy_with(message, path[0], _rebuilt(group, path[1:])), _shared(before, group[0][0]))


def _runs(items: Iterable[object], path: Sequence[str], above: tuple[object, ...] = ()) -> Iterator[_Run]:
    """Yield the lists at the end of the path; an item on the path with an empty list counts as a list of its own."""
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


def _expanded_parts(
    message: Message, rule: SplitRule, found: Iterator[Numbers | None]
) -> Iterator[RequestPart | None]:
    """Yield the parts of a request for all topics, at least one."""
    assert rule.topic is not None
    context = PartContext(is_of_all=True)
    last = ""
    for numbers in found:
        if numbers is None:
            yield None
            continue
        topics = [rule.topic(name, partitions) for name, partitions in numbers.items()]
        continued = 1 if last in list(numbers)[:1] else 0
        last = list(numbers)[-1]
        yield RequestPart(_copy_with(message, rule.request_path[0], topics), continued, context)
    if not last:
        yield RequestPart(_copy_with(message, rule.request_path[0], []), 0, context)


def _selected_parts(
    message: Message, rule: SplitRule, selections: Iterator[Sequence[Selection]]
) -> Iterator[RequestPart]:
    """Yield the parts of items that select what they change."""
    last: object = None
    for selection in selections:
        items = [item for item, _ in selection]
        continued = 1 if items[:1] and items[0] is last else 0
        last = items[-1] if items else None
        context = PartContext(selected_ids=[ids for _, ids in selection])
        yield RequestPart(_copy_with(message, rule.request_path[0], items), continued, context)


def _limited_parts(message: Message, changes: int, max_partitions: int) -> Iterator[RequestPart]:
    """Yield a request once per `max_partitions` changes, and the last time without a limit."""
    for _ in range(changes // max_partitions):
        yield RequestPart(message, 0, PartContext(limit=max_partitions))
    yield RequestPart(message)


def _copy_with(message: Message, field: str, items: list[object]) -> Message:
    part = copy(message)
    setattr(part, field, items)
    return part


def _copy_of_listed(message: Message, rule: SplitRule, group: Iterable[_Listed]) -> Message:
    part = copy(message)
    lists: dict[str, list[object]] = {field: [] for field in (rule.request_path[0], rule.also) if field}
    for field, item in group:
        lists[field].append(item)
    for field, items in lists.items():
        setattr(part, field, items)
    return part


class _NamesResource(Protocol):
    resource_type: int
    resource_name: str


class _HasName(Protocol):
    name: str


class _HasConfigs(Protocol):
    configs: list[object]


def _resource(controller: Controller, requested: _NamesResource) -> Hashable:
    del controller
    return (requested.resource_type, requested.resource_name)


def _name(controller: Controller, requested: _HasName) -> Hashable:
    del controller
    return requested.name


def _config_changes(controller: Controller, requested: _HasConfigs) -> int:
    """The cost of changing configs of a resource."""
    del controller
    return _RESOURCE_COST + _config_cost(requested)


def _config_cost(requested: _HasConfigs) -> int:
    return min(len(requested.configs), MAX_CONFIGS) // _CONFIGS_PER_CHANGE


def _description_cost(controller: Controller, requested: DescribeConfigsResource) -> int:
    """The cost of describing a resource."""
    del controller
    return _DESCRIBE_COST + min(len(requested.configuration_keys or ()), MAX_CONFIGS) // _KEYS_PER_CHANGE


_ALTER_CONFIGS: Final = SplitRule(("resources",), ("responses",), _config_changes, _resource, first_two)

SPLIT_RULES: Final[dict[int, SplitRule]] = {
    ApiKey.CREATE_TOPICS: SplitRule(
        ("topics",),
        ("topics",),
        lambda controller, requested: (
            1 + requested_partitions(controller, requested) + _config_cost(requested)
        ),
        _name,
        first_two,
        growth=new_partitions,
        prepare=prepare_topic,
    ),
    ApiKey.DELETE_TOPICS: SplitRule(
        ("topics",),
        ("responses",),
        lambda controller, requested: 1 + _partitions_of(controller, requested) // _REMOVALS_PER_CHANGE,
        lambda controller, requested: _identity(controller, requested),
        in_pieces,
        also="topic_names",
        mention=as_named,
    ),
    ApiKey.CREATE_PARTITIONS: SplitRule(
        ("topics",),
        ("results",),
        lambda controller, requested: 1 + requested_growth(controller, requested),
        _name,
        first_two,
        growth=requested_growth,
        prepare=prepare_growth,
    ),
    ApiKey.CREATE_ACLS: SplitRule(("creations",), ("results",)),
    ApiKey.DELETE_ACLS: SplitRule(("filters",), ("filter_results", "matching_acls"), select=acls_to_delete),
    ApiKey.ALTER_CLIENT_QUOTAS: SplitRule(
        ("entries",),
        ("entries",),
        name=lambda controller, requested: entity_of(requested),
        repeated=in_pieces,
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: SplitRule(
        ("deletions",), ("results",), name=_name, repeated=first_two, also="upsertions"
    ),
    ApiKey.ALTER_CONFIGS: _ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS: SplitRule(
        ("resources",), ("results",), _description_cost, _resource, first_two, describes=True
    ),
    ApiKey.ALTER_PARTITION: SplitRule(("topics", "partitions"), ("topics", "partitions")),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: SplitRule(("topics", "partitions"), ("responses", "partitions")),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: SplitRule(
        ("topics", "partition_indexes"),
        ("topics", "partitions"),
        expand=reassigning_partitions,
        topic=ListPartitionReassignmentsTopics,
    ),
    ApiKey.ELECT_LEADERS: SplitRule(
        ("topic_partitions", "partitions"),
        ("replica_election_results", "partition_result"),
        expand=partitions_to_elect,
        topic=TopicPartitions,
    ),
    ApiKey.UNREGISTER_BROKER: SplitRule((), (), changes=partitions_to_unregister),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: SplitRule(
        ("directories", "topics", "partitions"), ("directories", "topics", "partitions")
    ),
}


def _partitions_of(controller: Controller, requested: str | DeleteTopicState) -> int:
    topic = named_topic(controller.image, requested)
    return 0 if topic is None else len(topic.partitions)


def _identity(controller: Controller, requested: str | DeleteTopicState) -> Hashable:
    """The identity of a topic, which a request may name both by name and by id."""
    topic = named_topic(controller.image, requested)
    return topic.id if topic is not None else as_named(requested)
