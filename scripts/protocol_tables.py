#!/usr/bin/env python3
"""Generate the tables of docs/protocol.md from quorumd.protocol and schemas/. `--check` only compares them.

A table is between `<!-- NAME -->` and `<!-- end -->`. tests/unit/scripts/test_protocol_tables.py fails if the page
differs from the code.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorumd.protocol.apis import Api

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "protocol.md"
FIRST_PRIVATE = 1000
FIRST_PRIVATE_TAG = 10000


def tables() -> dict[str, str]:
    """Return every generated table by its name."""
    return {
        "apis": _table(("key", "API", "versions", "flexible from", "forwarded to the leader"), _apis()),
        "broker apis": _table(("key", "API", "versions", "flexible from"), _broker_apis()),
        "records": _table(("id", "record", "versions"), _records()),
        "coordinator records": _table(("topic", "type", "record", "versions"), _coordinator_records()),
        "control records": _table(("type", "control record", "version"), _control_records()),
        "private apis": _table(("key", "API", "versions"), _private_apis()),
        "private fields": _table(("message", "field", "tag", "type", "meaning"), _private_fields()),
        "private errors": _table(("code", "error"), _private_errors()),
    }


def render(page: str) -> str:
    """Return the page with its tables regenerated. Raises KeyError for an unknown table."""
    found = tables()

    def replaced(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{found[match[1]]}<!-- end -->"

    return re.sub(r"<!-- (?!end)([\w ]+) -->\n.*?<!-- end -->", replaced, page, flags=re.DOTALL)


def _apis() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.apis import APIS, BROKER_APIS, RAFT_FETCH_VERSION, ApiKey

    for api in APIS.values():
        if not api.private and api.key not in BROKER_APIS:
            first = RAFT_FETCH_VERSION if api.key == ApiKey.FETCH else api.min_version
            versions = _range(first, api.max_version)
            yield api.key, api.name, versions, _flexible(api), "yes" if api.forwardable else ""


def _broker_apis() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.apis import APIS, BROKER_APIS, ApiKey

    for api in APIS.values():
        if api.key == ApiKey.FETCH or api.key in BROKER_APIS:
            yield api.key, api.name, _range(api.min_version, api.max_version), _flexible(api)


def _flexible(api: Api) -> object:
    return "never" if api.flexible_from is None else api.flexible_from


def _private_apis() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.apis import APIS

    for api in APIS.values():
        if api.private:
            yield api.key, api.name, _range(api.min_version, api.max_version)


def _records() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.apis import record_class
    from quorumd.protocol.messages import RECORDS

    for number in sorted(RECORDS):
        record = record_class(number)
        yield number, record.NAME, _range(record.MIN_VERSION, record.MAX_VERSION)


def _coordinator_records() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.coordinator_record import TOPICS, value_class
    from quorumd.protocol.messages import COORDINATOR_RECORDS

    for coordinator, names in COORDINATOR_RECORDS.items():
        for kind, name in names.items():
            value = value_class(coordinator, kind)
            yield TOPICS[coordinator], kind, name, _range(value.MIN_VERSION, value.MAX_VERSION)


def _control_records() -> Iterator[tuple[object, ...]]:
    from quorumd.protocol.control_record import VALUE_VERSION, ControlType

    for kind in ControlType:
        name = "".join(word.capitalize() for word in kind.name.split("_")).replace("Kraft", "KRaft")
        yield kind.value, name, VALUE_VERSION


def _private_errors() -> Iterator[tuple[object, ...]]:
    from quorumd.errors import ErrorCode

    for error in ErrorCode:
        if error >= FIRST_PRIVATE:
            yield error.value, error.name


def _private_fields() -> Iterator[tuple[object, ...]]:
    for file in sorted((ROOT / "schemas").glob("*.json")):
        schema = json.loads(file.read_text(encoding="utf-8"))
        for path, field in _fields(schema["fields"], ""):
            if int(field.get("tag", -1)) >= FIRST_PRIVATE_TAG:
                yield schema["name"], path, field["tag"], field["type"], field["about"]


def _fields(fields: list[dict[str, Any]], parent: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in fields:
        yield parent + field["name"], field
        yield from _fields(field.get("fields", []), f"{parent}{field['name']}.")


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _table(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = (header, ("---",) * len(header), *rows)
    return "".join("| " + " | ".join(map(str, cells)) + " |\n" for cells in lines)


def main(arguments: list[str]) -> int:
    """Write the page, or compare it with `--check`; return the exit code."""
    sys.path.insert(0, str(ROOT))
    before = PAGE.read_text(encoding="utf-8")
    after = render(before)
    if before == after:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.relative_to(ROOT)} differs from the code: run scripts/protocol_tables.py")
        return 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
