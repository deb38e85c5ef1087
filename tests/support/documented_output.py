"""Compares the output of a command with the output that README.md or docs/ shows."""

from __future__ import annotations

import re
from difflib import unified_diff

from tests.support.documentation import Step, documented_steps

DIFFERS_ALWAYS = {
    r"\b\d+(?:\.\d+){3}:\d+\b": "<address>",
    r"(?<![\w-])[\w-]{22}(?![\w-])": "<uuid>",
    r"/\S*/quorumd-dev-\w+": "<directory>",
}
"""Patterns of values that differ in every run, and the text that replaces them."""

VARIES = {
    "quorumd cluster up": ("Node", "Pid", "Epoch", "HighWatermark", "LogEndOffset", "order"),
    "quorumd quorum describe": (
        *("LeaderId", "LeaderEpoch", "HighWatermark", "MaxFollowerLag", "MaxFollowerLagTimeMs"),
    ),
    "quorumd brokers list": ("Epoch",),
    "quorumd pipeline audit": ("numbers",),
    "quorumd pipeline history top": ("numbers", "Topic", "Now"),
    "quorumd pipeline history sql": ("numbers", "TypeName"),
    "quorumd pipeline plan make": ("numbers",),
}
"""For each command, the columns and keys of its output whose values depend on the run or on the data.

"numbers" are all numbers in the output, "order" is the order of its lines. Everything else is compared literally,
except for the widths of columns.
"""

NUMBER = re.compile(r"(?:(?<![\w-])-)?\d+(?:[.,]\d+)*")
HEADING = re.compile(r"[A-Z]\w*")


def documented_outputs(command: str) -> list[Step]:
    """Return the documented commands that begin with `command` and whose output is shown."""
    return [step for step in documented_steps() if step.output and step.command.startswith(command)]


def assert_as_documented(command: str, real: str) -> None:
    """Fail unless the documentation shows the output `real` for every command that begins with `command`."""
    found = documented_outputs(command)
    assert found, f"no output of {command!r} is documented"
    for step in found:
        assert not (difference := compare(step, real)), difference


def compare(step: Step, real: str) -> str:
    """Return the difference between the documented and the real output, "" if there is none.

    A documented line `...` stands for any further lines.
    """
    fields = next((fields for command, fields in VARIES.items() if step.command.startswith(command)), ())
    documented, printed = normalized(step.output, fields), normalized(real, fields)
    if documented[-1:] == ["..."]:
        del documented[-1]
        del printed[len(documented) :]
    names = f"documented at {step.place}: {step.command}", "printed"
    difference = "\n".join(unified_diff(documented, printed, *names, lineterm=""))
    return difference and f"{difference}\n\nthe whole output:\n{real}"


def normalized(output: str, fields: tuple[str, ...]) -> list[str]:
    """Return the lines with one separator between columns, and without the values of `fields`."""
    for pattern, name in DIFFERS_ALWAYS.items():
        output = re.sub(pattern, name, output)
    lines, heading = list[str](), list[str]()
    for line in output.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if len(cells) > 1 and all(map(HEADING.fullmatch, cells)):
            heading = cells
        elif len(cells) == len(heading):
            cells = [
                without_value(cell) if name in fields else cell
                for name, cell in zip(heading, cells, strict=True)
            ]
        elif cells[0].removesuffix(":") in fields:
            cells = [cells[0], *map(without_value, cells[1:])]
        line = "  ".join(cells)
        lines.append(NUMBER.sub("<number>", line) if "numbers" in fields else line)
    return sorted(lines) if "order" in fields else lines


def without_value(cell: str) -> str:
    """Replace a value with its kind."""
    return "<number>" if NUMBER.fullmatch(cell) else "<word>"
