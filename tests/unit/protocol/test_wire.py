"""Generated messages as values: they compare, print, copy and pickle by their fields."""

from __future__ import annotations

import copy
import gc
import pickle
import tomllib
import weakref
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import MODULES
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.vote_request import VoteRequest
from quorumd.protocol.wire import Message, MessageStruct
from tests.support.protocol.message_strategies import message_class, schema

ROOT = Path(__file__).resolve().parents[3]
TOPIC = KafkaUuid(b"the topic's id..")


def request() -> AlterPartitionRequest:
    partition = PartitionData(3, 1, [], [BrokerState(1, 7), BrokerState(2)], 0, 5)
    return AlterPartitionRequest(1, 7, [TopicData("", TOPIC, [partition])])


def test_messages_compare_by_their_fields() -> None:
    assert request() == request()
    other = request()
    other.topics[0].partitions[0].new_isr_with_epochs[1].broker_epoch = 8
    assert request() != other
    assert BrokerState(1, 2) != (1, 2)
    assert MetadataRequest([]) != AlterPartitionRequest(1, 7, [])


def test_messages_print_their_fields() -> None:
    assert repr(BrokerState(1)) == "BrokerState(broker_id=1, broker_epoch=-1)"


@pytest.mark.parametrize("message", [request(), VoteRequest(cluster_id="c"), BrokerState(1, 7)])
def test_copies_and_pickles_equal_the_message(message: MessageStruct) -> None:
    shallow = copy.copy(message)
    assert shallow == message
    assert shallow is not message
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message


def test_shallow_copy_shares_the_values_of_fields() -> None:
    message = request()
    shallow = copy.copy(message)
    assert shallow.topics is message.topics
    shallow.broker_id = 2
    assert message.broker_id == 1


@pytest.mark.parametrize("message", [request(), VoteRequest()])
def test_no_message_has_a_weak_reference(message: Message) -> None:
    # The garbage collection of a compiled message that had one would crash.
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(message)


def test_cycle_of_messages_is_collected() -> None:
    epoch = 4_321_987
    partitions: list[Any] = [PartitionData(n, epoch) for n in range(100)]
    for partition in partitions:
        partition.new_isr_with_epochs = partitions
    del partitions, partition
    gc.collect()
    left = [each for each in gc.get_objects() if type(each) is PartitionData]
    assert not [each for each in left if each.leader_epoch == epoch]


def test_no_class_of_a_node_inherits_from_a_compiled_message() -> None:
    # Compiled, such a class could not be instantiated.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    compiled = {
        path.removesuffix(".py").replace("/", ".") for path in settings["tool"]["quorumd"]["compiled"]
    }
    import_module("quorumd.runtime.daemon")
    import_module("quorumd.node.broker")
    import_module("quorumd.broker.api.fetch_reader")
    derived = [each for found in _subclasses(MessageStruct) for each in _subclasses(found)]
    outside = [each for each in derived if not each.__module__.startswith("quorumd.protocol.")]
    assert outside
    bases = {base.__module__ for each in outside for base in each.__mro__[1:]}
    assert not (bases - {"quorumd.protocol.wire"}) & compiled


def _subclasses(made: type) -> list[type]:
    return [each for found in made.__subclasses__() for each in (found, *_subclasses(found))]


@pytest.mark.parametrize("name", MODULES)
def test_fields_are_those_of_the_schema_with_their_structs(name: str) -> None:
    module = import_module(message_class(name).__module__)
    description = schema(name)
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", [])}

    def check(class_name: str, fields: list[dict[str, Any]]) -> None:
        kinds = [field["type"].removeprefix("[]") for field in fields]
        structs = {field["name"]: vars(module).get(kind) for field, kind in zip(fields, kinds, strict=True)}
        made = getattr(module, class_name)
        assert [each.replace("_", "") for each in made.FIELDS] == [each.lower() for each in structs]
        assert list(made.FIELDS.values()) == list(structs.values())
        for field, kind in zip(fields, kinds, strict=True):
            if field.get("fields"):
                check(kind, field["fields"])

    check(name, description["fields"])
    for class_name, fields in common.items():
        check(class_name, fields)
