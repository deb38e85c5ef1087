from __future__ import annotations

import pickle

import pytest

from quorumd.errors import ConfigError, RequestFailed
from quorumd.pipeline.live.observer import DEFAULT_TIMEOUT_S
from quorumd.pipeline.source.options import Interval, Selection, parse_options
from quorumd.pipeline.source.planning import plan_live

GIVEN = {"path": "1=/srv/n1,2=/srv/n2"}


def test_option_names_are_case_insensitive() -> None:
    options = parse_options({"PATH": "/srv/n1", "STARTINGoffset": "5", "oncorrupt": "SKIP"})
    assert options.directories == {0: "/srv/n1"}
    assert options.selection.offsets == Interval(5)
    assert options.on_corrupt == "skip"


def test_defaults_read_whole_log_and_fail_on_damage() -> None:
    options = parse_options(GIVEN)
    assert options.directories == {1: "/srv/n1", 2: "/srv/n2"}
    assert (options.level, options.on_corrupt, options.packed) == ("records", "fail", False)
    assert options.selection == Selection()
    assert options.committed_only
    assert not options.is_live


def test_bootstrap_addresses_are_parsed() -> None:
    options = parse_options({"bootstrap": "a:1, [::1]:9093"})
    assert options.bootstrap == (("a", 1), ("::1", 9093))
    assert options.is_live


def test_timeout_of_a_live_cluster_limits_its_requests() -> None:
    with pytest.raises(RequestFailed, match=r"within 0\.001 s"):
        plan_live(parse_options({"bootstrap": "127.0.0.1:1", "timeoutMs": "1"}), Selection())
    assert parse_options({"bootstrap": "a:1"}).timeout_s == DEFAULT_TIMEOUT_S


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({}, "either path"),
        (GIVEN | {"bootstrap": "a:1"}, "either path"),
        (GIVEN | {"levl": "records"}, "'levl' is not an option"),
        (GIVEN | {"level": "rows"}, "records, batches, audit, snapshot"),
        (GIVEN | {"startingOffset": "-1"}, "startingOffset is '-1'"),
        (GIVEN | {"packBytes": "64m"}, "packBytes is '64m'"),
        (GIVEN | {"maxOffsetsPerTrigger": "0"}, "1 or more"),
        (GIVEN | {"timeoutMs": "5s"}, "timeoutMs is '5s'"),
        (GIVEN | {"level": "snapshot", "endingOffset": "7"}, "cannot be combined with level snapshot"),
        ({"bootstrap": "a:1", "level": "audit"}, "give path instead of bootstrap"),
        ({"bootstrap": "localhost"}, "HOST:PORT"),
        ({"bootstrap": "localhost:0"}, "HOST:PORT"),
        ({"bootstrap": " , "}, "HOST:PORT"),
        ({"path": "1=/a,1=/b"}, "node 1 has two"),
    ],
)
def test_invalid_option_is_named(given: dict[str, str], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        parse_options(given)


def test_schema_selects_columns_in_order() -> None:
    options = parse_options(GIVEN)
    assert options.select([("type", "smallint"), ("offset", "bigint")]).names == ("type", "offset")
    assert options.select([("replicas", "array<int>")]).names == ("replicas",)
    packed = parse_options(GIVEN | {"lists": "packed"})
    assert packed.select([("replicas", "binary")]).names == ("replicas",)


@pytest.mark.parametrize(
    ("name", "type_", "reported"),
    [
        ("ofset", "bigint", "no column 'ofset'; it has node, segment"),
        ("offset", "string", "BIGINT, not STRING"),
        ("replicas", "binary", "ARRAY<INT>, not BINARY"),
    ],
)
def test_mismatching_schema_is_rejected(name: str, type_: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        parse_options(GIVEN).select([(name, type_)])


def test_default_sizes_give_every_core_work() -> None:
    usual = parse_options(GIVEN)
    assert usual.sizes(1 << 20) == (16 << 20, 16 << 20)
    assert usual.sizes(1 << 50) == (256 << 20, 256 << 20)
    assert parse_options(GIVEN | {"packBytes": "5"}).sizes(1 << 20) == (5, 16 << 20)
    assert parse_options(GIVEN | {"splitBytes": "7"}).sizes(1 << 50) == (256 << 20, 7)


def test_options_can_be_pickled() -> None:
    options = parse_options(GIVEN)
    assert pickle.loads(pickle.dumps(options)) == options


def test_selections_intersect() -> None:
    one = Selection(frozenset({1, 2}), Interval(3, 9), times=Interval(2))
    other = Selection(frozenset({2, 3}), Interval(5), times=Interval(1, 4))
    assert one & other == Selection(frozenset({2}), Interval(5, 9), times=Interval(2, 4))
    assert Selection(frozenset({1})) & Selection() == Selection(frozenset({1}))
    assert not (Selection(frozenset({1})) & Selection(frozenset({2}))).has_node(1)
