#!/usr/bin/env python3
"""Generate quorumd/protocol/messages/ from schemas/.

    scripts/generate_messages.py            write stale and missing modules, delete modules without a schema
    scripts/generate_messages.py --check    only compare; print every stale, missing and surplus module

Exit codes: 0 up to date; 1 differences (--check); 2 an invalid schema.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from messages.layout import module_name
from messages.modules import emit_index, emit_module
from messages.rules import check_message, check_together
from messages.schema import MessageSchema, SchemaError, read_schema, render

ROOT = Path(__file__).resolve().parent.parent


def load_schemas(directory: Path) -> list[MessageSchema]:
    """Load the schemas of a directory, sorted by file name. Raises SchemaError with the problems of all files, one
    per line."""
    problems: list[str] = []
    messages: dict[Path, MessageSchema] = {}
    for path in sorted(directory.glob("*.json")):
        try:
            message = read_schema(path)
        except SchemaError as error:
            problems.append(str(error))
            continue
        found = check_message(message)
        if found:
            problems.append(render(path, found))
        else:
            messages[path] = message
    if not problems:
        problems = [render(path, [problem]) for path, problem in check_together(messages)]
    if problems:
        raise SchemaError("\n".join(problems))
    if not messages:
        raise SchemaError(f"{directory}: no schemas found")
    return list(messages.values())


def generate(messages: list[MessageSchema]) -> dict[str, str]:
    """Return the text of every file of the package, by file name."""
    files = {f"{module_name(message.name)}.py": emit_module(message) for message in messages}
    return {**files, "__init__.py": emit_index(messages)}


def differences(files: dict[str, str], package: Path) -> dict[str, str]:
    """Compare `files` with the files of `package`; return "stale", "missing" or "surplus" by file name."""
    existing = {path.name: path.read_text(encoding="utf-8") for path in package.glob("*.py")}
    found = {name: "missing" for name in files if name not in existing}
    found |= {name: "stale" for name, text in files.items() if existing.get(name, text) != text}
    return found | {name: "surplus" for name in existing if name not in files}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Generate the message classes from their schemas.")
    parser.add_argument("--check", action="store_true", help="compare only, exit 1 if anything differs")
    parser.add_argument("--schemas", type=Path, default=ROOT / "schemas", help="directory of the schemas")
    parser.add_argument(
        "--package", type=Path, default=ROOT / "quorumd" / "protocol" / "messages", help="directory to write"
    )
    options = parser.parse_args(arguments)
    try:
        files = generate(load_schemas(options.schemas))
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 2
    found = differences(files, options.package)
    if options.check:
        for name, what in sorted(found.items()):
            print(f"{what}: {options.package / name}")
        if found:
            print("run `make messages`")
        return 1 if found else 0
    options.package.mkdir(parents=True, exist_ok=True)
    for name, what in sorted(found.items()):
        if what == "surplus":
            (options.package / name).unlink()
        else:
            (options.package / name).write_text(files[name], encoding="utf-8")
    print(f"{len(files)} modules, {len(found)} written or deleted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
