"""Requests to the controller: each is planned for a cluster that has the brokers and topics of the requests."""

from __future__ import annotations

from functools import cache

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.controller.record_versions import record_version
from quorumd.controller.request_context import NO_CONTEXT
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import MalformedMessage
from quorumd.node.api.controller_table import CONTROLLER_APIS
from quorumd.protocol.apis import APIS, request_class
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from tests.fuzz.target import Parse, Target
from tests.support.controller.requests import BROKER, TOPIC_ID
from tests.support.controller.topic_harness import TopicHarness, a_broker
from tests.support.node.sample_requests import full_request

KEYS = sorted(CONTROLLER_APIS)
BROKERS = (BROKER, BROKER + 1, BROKER + 2, 901)
EPOCH = 7
"""The epoch of the brokers, as in `full_request`."""


@cache
def _requests() -> list[bytes]:
    """Return requests, each after two bytes for its API and version."""
    found = []
    for number, key in enumerate(KEYS):
        for version in range(APIS[key].min_version, APIS[key].max_version + 1):
            found.append(bytes((number, version)) + encode(full_request(key, version), version))
    return found


def _harness() -> TopicHarness:
    # The records of a request must fit into one batch; a small batch suffices to test this.
    settings = ControllerSettings(max_batch_bytes=4096)
    harness = TopicHarness(
        tuple(a_broker(broker_id)._replace(epoch=EPOCH) for broker_id in BROKERS), settings
    )
    image = harness.controller.image
    image.apply(TopicRecord("one", TOPIC_ID), [])
    for number in range(3):
        partition = Partition(BROKERS[:3], BROKERS[:2], BROKER, 1, 1)
        image.apply(partition_record(PartitionId(TOPIC_ID, number), partition), [])
    return harness


def _make_plan() -> Parse:
    controller = _harness().controller
    image = controller.image

    def plan(data: bytes) -> None:
        if len(data) < 2 or data[0] >= len(KEYS):
            raise MalformedMessage("no such API")
        key, version = KEYS[data[0]], data[1]
        if not APIS[key].supports(version):
            raise MalformedMessage("no such version")
        before = image.hash
        message = decode(request_class(key), version, data, 2)
        planned = CONTROLLER_APIS[key].plan(controller, message, version, NO_CONTEXT)
        assert image.hash == before, "planning changes nothing"
        encode(planned.response, version)
        changes: list[UndoEntry] = []
        for record in planned.records:
            value = encode_record(record, record_version(record, image.metadata_version))
            image.apply(decode_record(value), changes)
        undo(reversed(changes))
        assert image.hash == before, "a plan can be undone"

    return plan


TARGETS = (Target("controller", 10, _requests, _make_plan, (MalformedMessage,), takes_large=False),)
