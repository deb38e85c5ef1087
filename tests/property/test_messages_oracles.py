"""The same bytes as kio and kafka-python, in both directions, for every (message, version) that they have.

An oracle decodes our bytes to the same values, field by field, and encodes these to the same bytes. quorumd's own
tagged fields stay at their defaults: the oracles would skip them.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import io
import re
import uuid
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import OutOfBoundValue

from quorumd.ids import ZERO_UUID
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    PartitionData,
    TargetVoter,
    TopicData,
)
from quorumd.protocol.wire import MessageStruct
from tests.support.protocol.message_strategies import (
    all_versions,
    message_values,
    present_slots,
    schema,
    versions_of,
)

MODULES_OF_KAFKA_PYTHON = (
    kafka.protocol.admin,
    kafka.protocol.metadata,
    kafka.protocol.consumer,
    kafka.protocol.producer,
)
EXAMPLES = settings(max_examples=12, suppress_health_check=list(HealthCheck))
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)


def kio_class(name: str, version: int) -> type | None:
    """kio's class of one version of a message."""
    kind = schema(name)["type"]
    directory = name.removesuffix(
        "Request" if kind == "request" else "Response" if kind == "response" else ""
    )
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", directory).lower()
    try:
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    found: type = getattr(module, name)
    return found


def kafka_python_class(name: str) -> Any:
    """kafka-python's class of all versions of a request or response that it knows."""
    if schema(name)["type"] not in ("request", "response"):
        return None
    for module in MODULES_OF_KAFKA_PYTHON:
        if hasattr(module, name):
            return getattr(module, name)
    return None


KNOWN_TO_KIO = [pair for pair in all_versions() if kio_class(*pair)]
KNOWN_TO_KAFKA_PYTHON = [
    (name, version)
    for name, version in all_versions()
    if (known := kafka_python_class(name)) and version <= known.max_version
]


def plain(value: Any) -> Any:
    """A value of kio's types as this codec represents it."""
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, enum.Enum):
        return value.value
    return value


def assert_same(ours: Any, theirs: Any, name: str, version: int) -> None:
    """Compare field by field, in the order of the schema, because some names differ."""
    if isinstance(ours, MessageStruct):
        fields = [field.name for field in dataclasses.fields(theirs)]
        slots = present_slots(name, type(ours).__name__, version)
        assert len(fields) == len(slots)
        for slot, field in zip(slots, fields, strict=True):
            assert_same(getattr(ours, slot), getattr(theirs, field), name, version)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            assert_same(our, their, name, version)
    elif ours == ZERO_UUID:
        assert theirs is None or theirs.int == 0
    elif theirs is None:
        assert ours in (None, -1), "kio's null of a time that may be -1"
    else:
        assert plain(theirs) == ours


@pytest.mark.parametrize(("name", "version"), KNOWN_TO_KIO)
@given(data=st.data())
@EXAMPLES
def test_kio_reads_and_writes_the_same(name: str, version: int, data: st.DataObject) -> None:
    message = data.draw(message_values(name, version, private_tags=False))
    encoded = encode(message, version)
    their_class = kio_class(name, version)
    try:
        theirs, size = entity_reader(their_class)(encoded, 0)
    except OutOfBoundValue:
        # kio has no negative timestamps, except where the schema calls them null.
        reject()
    assert size == len(encoded)
    assert_same(message, theirs, name, version)
    written = io.BytesIO()
    entity_writer(their_class)(written, theirs)
    assert written.getvalue() == encoded


@pytest.mark.parametrize(("name", "version"), KNOWN_TO_KAFKA_PYTHON)
@given(data=st.data())
@EXAMPLES
def test_kafka_python_reads_and_writes_the_same(name: str, version: int, data: st.DataObject) -> None:
    message = data.draw(message_values(name, version, private_tags=False))
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0  # with another version it decodes the response as v0, as a client should
    encoded = encode(message, version)
    theirs = kafka_python_class(name)[version].decode(encoded)
    theirs._header = None  # its decoder leaves it unset, its encoder looks at it
    assert bytes(theirs.encode(version=version)) == encoded


@pytest.mark.parametrize("version", versions_of("DescribeQuorumResponse"))
def test_kafka_python_skips_the_tagged_fields_of_quorumd(version: int) -> None:
    """kio raises KeyError for unknown tags."""

    def read(target_voters: list[TargetVoter] | None) -> str:
        partition = PartitionData(leader_id=3, target_voters=target_voters)
        message = DescribeQuorumResponse(topics=[TopicData("topic", [partition])])
        return repr(kafka_python_class(message.NAME)[version].decode(encode(message, version)))

    assert read([TargetVoter(1), TargetVoter(2)]) == read(None)


def test_oracles_cover_the_expected_messages() -> None:
    """A renamed module of an oracle must not leave nothing to compare."""
    names = {name for name, _ in KNOWN_TO_KIO}
    apis = ("FetchQuorumRecords", "DiscoverBrokers", "AlterQuorum", "DescribeNode", "UnregisterController")
    unknown = {f"{api}{kind}" for api in apis for kind in ("Request", "Response")}
    records = ("metadata", "coordinator-key", "coordinator-value")
    unknown |= {name for name, _ in all_versions() if schema(name)["type"] in records}
    assert {name for name, _ in all_versions()} - names == unknown
    before_kafka_4 = {
        (f"AlterPartition{kind}", version) for kind in ("Request", "Response") for version in (0, 1)
    }
    newest = (("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6))
    since_kafka_4_4 = {
        (f"{api}{kind}", version) for api, version in newest for kind in ("Request", "Response")
    }
    spoken = {(name, version) for name in names for version in versions_of(name)}
    assert spoken - set(KNOWN_TO_KIO) == before_kafka_4 | since_kafka_4_4
    assert len({name for name, _ in KNOWN_TO_KAFKA_PYTHON}) == 100
