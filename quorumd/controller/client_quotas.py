"""AlterClientQuotas and DescribeClientQuotas (KIP-546)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.security_records import quota_entity
from quorumd.controller.steps import select_sorted
from quorumd.errors import ErrorCode
from quorumd.protocol.messages import alter_client_quotas_response, client_quota_record
from quorumd.protocol.messages import describe_client_quotas_response as described
from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
)
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from quorumd.protocol.wire import Message
from quorumd.quotas.entities import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)

_LONG: Final = 2**63 - 1
_INT: Final = 2**31 - 1
_KEYS: Final[dict[str, int | None]] = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    MUTATION_RATE: None,
}
"""The quotas of users and clients: the maximum of a whole number, None if the value may be fractional."""
_IP_KEYS: Final[dict[str, int | None]] = {CONNECTION_RATE: _INT}
_FRACTION: Final = 1e-6
"""Rounding error up to which a value is a whole number."""
_MAX_PARTS: Final = 2
"""Types that an entity may combine: a user and a client id."""
_MAX_OPS: Final = 16
"""Operations on one entity, of which none is repeated; there are fewer quotas."""
_Quotas = tuple[QuotaEntity, tuple[tuple[str, float], ...]]
"""An entity with its quotas by key."""
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""Match types of the components of a filter."""


def plan_alter_client_quotas(
    controller: Controller, message: AlterClientQuotasRequest, version: int
) -> ControllerResult:
    """Set and remove quotas, all of an entity or, if one is invalid, none."""
    del version
    entities = [entity_of(each) for each in message.entries]
    count = Counter(entities)
    records: list[Message] = []
    results: list[alter_client_quotas_response.EntryData] = []
    wire = alter_client_quotas_response
    for entry, names in zip(message.entries, entities, strict=True):
        entity = [wire.EntityData(each.entity_type, each.entity_name) for each in _shown(entry)]
        problem = _entry_problem(entry)
        if problem is None and count[names] > 1:
            problem = "The entity occurs twice in the request."
        if problem is not None:
            results.append(wire.EntryData(int(ErrorCode.INVALID_REQUEST), problem, entity))
            continue
        results.append(wire.EntryData(0, None, entity))
        records += _records(controller.image, entry)
    response = wire.AlterClientQuotasResponse(0, results)
    return ControllerResult(() if message.validate_only else records, response)


def entity_of(entry: EntryData) -> tuple[tuple[str, str], ...]:
    """Return the entity of an entry as a tuple that does not depend on the order of its types."""
    return tuple(sorted((each.entity_type, each.entity_name or "") for each in _shown(entry)))


def _shown(entry: EntryData) -> Sequence[EntityData]:
    """The parts of the entity; of an entity with too many, one more than is allowed."""
    return entry.entity[: _MAX_PARTS + 1]


def _entry_problem(entry: EntryData) -> str | None:
    """Why an entry cannot be applied, None if it can."""
    if len(entry.entity) > _MAX_PARTS:
        return "An entity must not have more types than a user and a client-id."
    if len(entry.ops) > _MAX_OPS:
        return f"An entity must not have more than {_MAX_OPS} changes."
    parts = {each.entity_type: each.entity_name for each in entry.entity}
    if len(parts) < len(entry.entity) or not parts:
        return "An entity must have at least one type, and each type only once."
    unknown = set(parts) - {USER, CLIENT_ID, IP}
    if unknown:
        return f"Unknown entity type {min(unknown)!r}; expected {USER}, {CLIENT_ID} or {IP}."
    if "" in parts.values():
        return "The entity name must not be empty; use null for the default entity."
    if IP in parts and len(parts) > 1:
        return "An ip cannot be combined with a user or a client-id."
    if IP in parts and not _is_address(parts[IP]):
        return f"{parts[IP]!r} is not an IP address; host names are not supported."
    keys = [op.key for op in entry.ops]
    if len(set(keys)) < len(keys):
        return "A quota occurs twice for the entity."
    allowed = _IP_KEYS if IP in parts else _KEYS
    problems = (_value_problem(allowed, op.key, op.value) for op in entry.ops if not op.remove)
    return next((problem for problem in problems if problem is not None), None)


def _is_address(text: str | None) -> bool:
    if text is None:
        return True
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _value_problem(allowed: Mapping[str, int | None], key: str, value: float) -> str | None:
    if key not in allowed:
        return f"Unknown quota {key!r}; expected {', '.join(allowed)}."
    if not value > 0:
        return f"Quota {key} must be greater than 0."
    limit = allowed[key]
    if limit is not None and value > limit:
        return f"Quota {key} is too large."
    if limit is not None and value % 1.0 > _FRACTION:
        return f"Quota {key} must be a whole number."
    return None


def _records(image: ClusterImage, entry: EntryData) -> list[Message]:
    """Return the records of the quotas that change."""
    parts = {each.entity_type: each.entity_name for each in entry.entity}
    present = image.security.quotas.get(quota_entity(parts), {})
    records: list[Message] = []
    for op in entry.ops:
        entity = [client_quota_record.EntityData(kind, name) for kind, name in parts.items()]
        if op.remove:
            if op.key in present:
                records.append(ClientQuotaRecord(entity, op.key, 0.0, True))
        elif present.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity, op.key, op.value))
    return records


def describe_client_quotas(
    image: ClusterImage, message: DescribeClientQuotasRequest
) -> Generator[None, None, described.DescribeClientQuotasResponse]:
    """List the quotas of the entities that the filter selects, in two steps per entity."""
    quotas = [(entity, tuple(values.items())) for entity, values in image.security.quotas.items()]
    return _describe(quotas, message)


def _describe(
    quotas: Sequence[_Quotas], message: DescribeClientQuotasRequest
) -> Generator[None, None, described.DescribeClientQuotasResponse]:
    problem = _filter_problem(message.components)
    if problem is not None:
        error, text = problem
        return described.DescribeClientQuotasResponse(0, int(error), text, None)
    entries: list[described.EntryData] = []
    for entity, values in (
        yield from select_sorted(
            quotas, lambda each: _selects(message, dict(each[0])), lambda each: _order(each[0])
        )
    ):
        parts = [described.EntityData(kind, name) for kind, name in entity]
        entries.append(
            described.EntryData(parts, [described.ValueData(key, value) for key, value in sorted(values)])
        )
        yield
    return described.DescribeClientQuotasResponse(0, 0, None, entries)


def _order(entity: QuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def _filter_problem(components: list[ComponentData]) -> tuple[ErrorCode, str] | None:
    types = [each.entity_type for each in components]
    if len(set(types)) < len(types) or "" in types:
        return (
            ErrorCode.INVALID_REQUEST,
            "A filter must not have an empty entity type, or the same one twice.",
        )
    unknown = set(types) - {USER, CLIENT_ID, IP}
    if unknown:
        return ErrorCode.UNSUPPORTED_VERSION, f"Unknown entity type {min(unknown)!r}."
    for each in components:
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}."
        if (each.match is None) == (each.match_type == EXACT):
            return (
                ErrorCode.INVALID_REQUEST,
                "Match type 0 (exact) requires a name; the other types exclude it.",
            )
    if IP in types and len(types) > 1:
        return ErrorCode.INVALID_REQUEST, "An ip cannot be combined with a user or a client-id."
    return None


def _selects(message: DescribeClientQuotasRequest, entity: Mapping[str, str | None]) -> bool:
    """Whether the filter selects an entity; a component of match type SPECIFIED selects the default entity too."""
    if message.strict and len(entity) != len(message.components):
        return False
    return all(
        each.entity_type in entity
        and (each.match_type == SPECIFIED or entity[each.entity_type] == each.match)
        for each in message.components
    )
