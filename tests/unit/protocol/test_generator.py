"""Errors of the schema language name file and path; accepted schemas become code that is up to date."""

from __future__ import annotations

import copy
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.text import shows

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "generate_messages.py"

REQUEST: dict[str, Any] = {
    "name": "PingRequest",
    "type": "request",
    "apiKey": 7,
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "commonStructs": [
        {"name": "Place", "versions": "0+", "fields": [{"name": "Host", "type": "string", "versions": "0+"}]}
    ],
    "fields": [
        {"name": "Here", "type": "Place", "versions": "0+"},
        {"name": "There", "type": "[]Place", "versions": "0+", "nullableVersions": "1+"},
        {
            "name": "Next",
            "type": "Next",
            "versions": "1+",
            "nullableVersions": "1+",
            "default": "null",
            "ignorable": True,
            "fields": [
                {"name": "Count", "type": "int32", "versions": "1+", "default": "-1"},
                {"name": "Ids", "type": "[]uuid", "versions": "1+"},
            ],
        },
        {
            "name": "Note",
            "type": "string",
            "versions": "2+",
            "taggedVersions": "2+",
            "tag": 0,
            "about": "A word.",
        },
        {"name": "Sizes", "type": "[]int64", "versions": "3+", "taggedVersions": "3+", "tag": 1},
        {"name": "Own", "type": "bool", "versions": "2+", "taggedVersions": "2+", "tag": 10000},
        {"name": "Names", "type": "[]string", "versions": "0+"},
        {"name": "Count", "type": "uint32", "versions": "0+"},
        {"name": "Ratio", "type": "float64", "versions": "0+", "default": "0.5"},
    ],
}
RESPONSE: dict[str, Any] = {
    "name": "PingResponse",
    "type": "response",
    "apiKey": 7,
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "fields": [],
}
DATA: dict[str, Any] = {"type": "data", "validVersions": "0", "flexibleVersions": "0+", "fields": []}


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    """The script as a module, as `python scripts/generate_messages.py` sees its helpers."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec = importlib.util.spec_from_file_location("generate_messages", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(SCRIPT.parent))


@pytest.fixture
def schemas(tmp_path: Path) -> Callable[..., Path]:
    """Writes schema files into a directory of their own."""

    def write(*messages: dict[str, Any]) -> Path:
        directory = tmp_path / "schemas"
        directory.mkdir()
        for message in messages:
            (directory / f"{message['name']}.json").write_text(json.dumps(message))
        return directory

    return write


def refusal(generator: ModuleType, directory: Path) -> str:
    with pytest.raises(generator.SchemaError) as caught:
        generator.load_schemas(directory)
    return str(caught.value).replace(f"{directory}/", "")


Change = Callable[[dict[str, Any]], object]
BAD: list[tuple[str, Change, str]] = [
    (
        "misspelt attribute",
        lambda m: m.update(validVersion="0"),
        "validVersion: Extra inputs are not permitted",
    ),
    (
        "misspelt field attribute",
        lambda m: m["fields"][2]["fields"][0].update(nullableVersion="1+"),
        "fields[2].fields[0].nullableVersion: Extra inputs are not permitted",
    ),
    ("missing attribute", lambda m: m["fields"][0].pop("versions"), "fields[0].versions: Field required"),
    (
        "no version range",
        lambda m: m["fields"][0].update(versions="1-"),
        "fields[0].versions: '1-' is not a version range",
    ),
    (
        "backward range",
        lambda m: m["fields"][0].update(versions="2-1"),
        "fields[0].versions: '2-1' ends before",
    ),
    ("open valid versions", lambda m: m.update(validVersions="0+"), "validVersions: 0+ has no last version"),
    (
        "range outside validVersions",
        lambda m: m["fields"][0].update(versions="0-4"),
        "fields[0].versions: 0-4 is outside 0-3",
    ),
    (
        "range outside the struct's",
        lambda m: m["fields"][2]["fields"][0].update(versions="0+"),
        "fields[2].fields[0].versions: 0+ is outside 1+",
    ),
    (
        "nullable outside the field's",
        lambda m: m["fields"][3].update(nullableVersions="1+"),
        "fields[3].nullableVersions: 1+ is outside 2+",
    ),
    (
        "flexible outside",
        lambda m: m.update(flexibleVersions="4+"),
        'flexibleVersions: 4+ is neither "none" nor an open range that starts in 0-3',
    ),
    (
        "tagged but not flexible",
        lambda m: m["fields"][3].update(versions="1+", taggedVersions="1+"),
        "fields[3].taggedVersions: 1+ includes versions that are not flexible",
    ),
    (
        "tagged for a while",
        lambda m: m["fields"][3].update(taggedVersions="2"),
        "fields[3].taggedVersions: 2 is not open-ended",
    ),
    (
        "tag without versions",
        lambda m: m["fields"][0].update(tag=2),
        "fields[0].tag: tag and taggedVersions require each other",
    ),
    ("gap in tags", lambda m: m["fields"][4].update(tag=2), "fields: tags [0, 2] do not count up from 0"),
    ("tag used twice", lambda m: m["fields"][4].update(tag=0), "fields: tags [0, 0] do not count up from 0"),
    (
        "gap in own tags",
        lambda m: m["fields"][5].update(tag=10001),
        "fields: tags [10001] do not count up from 10000",
    ),
    (
        "field twice",
        lambda m: m["fields"][3].update(name="Names"),
        "fields[6].name: 'Names' occurs twice in the struct",
    ),
    (
        "struct twice",
        lambda m: m["fields"][2].update(type="Place"),
        "fields[2].fields: Place is already declared in commonStructs",
    ),
    (
        "struct of the message's name",
        lambda m: m["fields"][2].update(type="PingRequest"),
        "fields[2].type: a struct 'PingRequest' is already declared",
    ),
    (
        "unknown type",
        lambda m: m["fields"][7].update(type="int128"),
        "fields[7].type: 'int128' is neither a struct with fields nor one of bool, int8",
    ),
    (
        "primitive with fields",
        lambda m: m["fields"][2].update(type="int8"),
        "fields[2].fields: int8 cannot have fields",
    ),
    (
        "null number",
        lambda m: m["fields"][7].update(nullableVersions="0+"),
        "fields[7].nullableVersions: uint32 cannot be null",
    ),
    (
        "number too large",
        lambda m: m["fields"][7].update(default="-1"),
        "fields[7].default: -1 does not fit uint32",
    ),
    ("no number", lambda m: m["fields"][7].update(default="many"), "fields[7].default: invalid literal"),
    (
        "null default",
        lambda m: m["fields"][3].update(default="null"),
        "fields[3].default: null is the default of",
    ),
    (
        "array default",
        lambda m: m["fields"][6].update(default="a"),
        "fields[6].default: 'a': the default of an array",
    ),
    (
        "struct default",
        lambda m: m["fields"][0].update(default="a"),
        "fields[0].default: 'a' is not a default of Place",
    ),
    (
        "Python keyword",
        lambda m: m["fields"][7].update(name="Class"),
        "fields[7].name: 'class' is a Python keyword",
    ),
    ("no API key", lambda m: m.pop("apiKey"), "apiKey: a request requires one"),
    ("coordinator", lambda m: m.update(coordinator="group"), "coordinator: a request must not have one"),
    (
        "unknown coordinator",
        lambda m: m.update(coordinator="share"),
        "coordinator: Input should be 'group' or 'transaction'",
    ),
    (
        "unknown message type",
        lambda m: m.update(type="answer"),
        "type: Input should be 'request', 'response'",
    ),
]


@pytest.mark.parametrize(("change", "problem"), [pytest.param(*case[1:], id=case[0]) for case in BAD])
def test_bad_schema_is_refused_with_file_and_path(
    generator: ModuleType, schemas: Callable[..., Path], change: Change, problem: str
) -> None:
    message = copy.deepcopy(REQUEST)
    change(message)
    assert f"PingRequest.json: {problem}" in refusal(generator, schemas(message, RESPONSE))


def test_all_problems_are_reported_at_once(generator: ModuleType, schemas: Callable[..., Path]) -> None:
    message = copy.deepcopy(REQUEST)
    message["fields"][0]["versions"] = "9"
    message["fields"][7]["default"] = "many"
    text = refusal(generator, schemas(message, {**RESPONSE, "about": 7}))
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ([], "PingRequest.json: apiKey: API 7 has no schema for its response"),
        (
            [RESPONSE, {**RESPONSE, "name": "PongResponse"}],
            "PongResponse.json: apiKey: response 7 is taken by",
        ),
        (
            [{**RESPONSE, "name": "PongResponse"}],
            "name: 'PingRequest' and 'PongResponse' are not XRequest and XResponse",
        ),
        (
            [{**RESPONSE, "validVersions": "0-2"}],
            "PingRequest.json: validVersions: 0-3, but PingResponse has 0-2",
        ),
        (
            [RESPONSE, {**DATA, "name": "KRaftThing"}, {**DATA, "name": "KraftThing"}],
            "'KraftThing' is taken by",
        ),
    ],
)
def test_request_and_response_schemas_must_agree(
    generator: ModuleType, schemas: Callable[..., Path], others: list[dict[str, Any]], problem: str
) -> None:
    assert problem in refusal(generator, schemas(REQUEST, *others))


def test_schema_stands_in_the_file_of_its_name(generator: ModuleType, schemas: Callable[..., Path]) -> None:
    directory = schemas(REQUEST, RESPONSE)
    (directory / "PingRequest.json").rename(directory / "Ping.json")
    assert shows(refusal(generator, directory), "Ping.json:", "'PingRequest'", "PingRequest.json")


def test_attribute_twice_and_broken_json_are_refused(generator: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "A.json").write_text('{"name": "A", "name": "B"}')
    (tmp_path / "B.json").write_text('{"name": ')
    first, second = refusal(generator, tmp_path).splitlines()
    assert shows(first, "A.json:", "'name'", "twice")
    assert second.startswith("B.json: Expecting value: line 1 column 10")


def test_empty_directory_is_refused(generator: ModuleType, tmp_path: Path) -> None:
    assert "no schemas found" in refusal(generator, tmp_path)


def test_every_construct_of_the_language_is_generated(
    generator: ModuleType, schemas: Callable[..., Path]
) -> None:
    """Includes constructs that no message uses: nullable structs, arrays of strings and uuids, shared structs."""
    text = generator.generate(generator.load_schemas(schemas(REQUEST, RESPONSE)))["ping_request.py"]
    names: dict[str, Any] = {"__name__": "ping_request"}
    exec(compile(text, "ping_request.py", "exec"), names)
    place, following, ping = names["Place"], names["Next"], names["PingRequest"]
    assert "# string 2+, tag 0 in 2+. A word." in text

    def round_trip(message: Any, version: int) -> str:
        out = bytearray()
        names["ENCODE"][version](message, out)
        decoded, end, _ = names["DECODE"][version](bytes(out), 0)
        assert end == len(out)
        assert decoded == message
        return out.hex(" ")

    half = "3f e0 00 00 00 00 00 00"
    old = ping(place("h"), [place("t")], names=["a", "b"], count=9)
    assert (
        round_trip(old, 0)
        == f"00 01 68 00 00 00 01 00 01 74 00 00 00 02 00 01 61 00 01 62 00 00 00 09 {half}"
    )
    nulls = ping(place("h"), None)
    assert round_trip(nulls, 1) == f"00 01 68 ff ff ff ff ff 00 00 00 00 00 00 00 00 {half}"
    uuid = names["KafkaUuid"](bytes(range(16)))
    full = ping(place("h"), None, following(3, [uuid]), "n", [5], True)
    assert round_trip(full, 3) == (
        f"02 68 00 00 01 00 00 00 03 02 {uuid.hex(' ')} 00 01 00 00 00 00 {half} "
        "03 00 02 02 6e 01 09 02 00 00 00 00 00 00 00 05 90 4e 01 01"
    )


def test_tagged_struct_may_be_null_by_default_or_by_value(
    generator: ModuleType, schemas: Callable[..., Path]
) -> None:
    """In a tagged field null is a varint of 0, as Kafka's generator writes it; elsewhere it is a byte of -1."""

    def field(name: str, tag: int, **others: Any) -> dict[str, Any]:
        all_versions = dict.fromkeys(("versions", "nullableVersions", "taggedVersions"), "0+")
        return {"name": name, "tag": tag, **all_versions, **others}

    count = [{"name": "Count", "type": "int8", "versions": "0+"}]
    message = {
        **DATA,
        "name": "Optional",
        "fields": [
            field("First", 0, type="First", fields=count),
            field("Second", 1, type="Second", fields=count, default="null"),
            field("Ids", 2, type="[]int8"),
        ],
    }
    text = generator.generate(generator.load_schemas(schemas(message)))["optional.py"]
    names: dict[str, Any] = {"__name__": "optional"}
    exec(compile(text, "optional.py", "exec"), names)
    optional, first, second = names["Optional"], names["First"], names["Second"]
    for value, expected in (
        (optional(), "00"),
        (optional(None, None, None), "02 00 01 00 02 01 00"),
        (optional(first(7), second(8), [9]), "03 00 03 01 07 00 01 03 01 08 00 02 02 02 09"),
        (optional(first(), second(), []), "01 01 03 01 00 00"),
    ):
        out = bytearray()
        names["ENCODE"][0](value, out)
        assert out.hex(" ") == expected
        assert names["DECODE"][0](bytes(out), 0)[:2] == (value, len(out))


RECORD_KEY = {**DATA, "name": "PingKey", "type": "coordinator-key", "apiKey": 3, "coordinator": "group"}
RECORD_VALUE = {**RECORD_KEY, "name": "PingValue", "type": "coordinator-value", "validVersions": "0-1"}


def test_records_of_coordinators_are_indexed_by_their_type(
    generator: ModuleType, schemas: Callable[..., Path]
) -> None:
    messages = (RECORD_KEY, RECORD_VALUE, REQUEST, RESPONSE)
    files = generator.generate(generator.load_schemas(schemas(*messages)))
    index: dict[str, Any] = {"__name__": "index"}
    exec(compile(files["__init__.py"], "__init__.py", "exec"), index)
    assert index["COORDINATOR_RECORDS"] == {"group": {3: "Ping"}}
    assert 3 not in index["APIS"]
    assert '"""PingValue: coordinator-value of group record 3, versions 0 to 1' in files["ping_value.py"]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([RECORD_KEY], "PingKey.json: apiKey: group record 3 has no schema for its value"),
        ([RECORD_VALUE], "PingValue.json: apiKey: group record 3 has no schema for its key"),
        (
            [{**RECORD_KEY, "coordinator": "transaction"}, RECORD_VALUE],
            "PingKey.json: apiKey: transaction record 3 has no schema for its value",
        ),
        (
            [RECORD_KEY, {**RECORD_VALUE, "name": "PongValue"}],
            "PingKey.json: name: 'PingKey' and 'PongValue' are not XKey and XValue",
        ),
        (
            [{**RECORD_KEY, "validVersions": "0-1"}, RECORD_VALUE],
            "PingKey.json: validVersions: 0-1, but a key has only version 0",
        ),
        (
            [RECORD_KEY, RECORD_VALUE, {**RECORD_KEY, "name": "PongKey"}],
            "PongKey.json: apiKey: coordinator-key 3 is taken by",
        ),
        (
            [{key: value for key, value in RECORD_KEY.items() if key != "coordinator"}],
            "PingKey.json: coordinator: a coordinator-key requires one",
        ),
    ],
)
def test_key_and_value_of_a_record_must_agree(
    generator: ModuleType, schemas: Callable[..., Path], messages: list[dict[str, Any]], problem: str
) -> None:
    assert problem in refusal(generator, schemas(*messages))


def test_check_names_stale_missing_and_surplus_files(
    generator: ModuleType, schemas: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "messages"
    arguments = ["--schemas", str(schemas(REQUEST, RESPONSE)), "--package", str(package)]
    assert generator.main([*arguments, "--check"]) == 1
    assert generator.main(arguments) == 0
    assert generator.main([*arguments, "--check"]) == 0
    capsys.readouterr()
    (package / "ping_request.py").write_text("# by hand\n")
    (package / "ping_response.py").unlink()
    (package / "pong_request.py").write_text("")
    assert generator.main([*arguments, "--check"]) == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        f"stale: {package}/ping_request.py",
        f"missing: {package}/ping_response.py",
        f"surplus: {package}/pong_request.py",
    ]
    assert generator.main(arguments) == 0
    assert generator.main([*arguments, "--check"]) == 0


def test_refused_schema_is_exit_code_2(
    generator: ModuleType, schemas: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = schemas(REQUEST)
    assert generator.main(["--schemas", str(directory), "--package", str(tmp_path / "messages")]) == 2
    assert "API 7 has no schema for its response" in capsys.readouterr().err


def test_committed_messages_are_up_to_date(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0
