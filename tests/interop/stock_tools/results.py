"""The results of the table of verbs, which are saved in results.json and shown in docs/stock-kafka.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.interop.stock_tools.matrix import HOLDS, NOT_THERE
from tests.interop.stock_tools.verbs import ROWS, STOPPED_ROWS

ROOT = Path(__file__).resolve().parents[3]
KEPT = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "stock-kafka.md"
Results = dict[str, dict[str, str]]
"""Results by column, such as `4.3.1 dynamic`, and command."""

_HEAD = """# Kafka's own tools and brokers on quorumd

`make stock-tools STOCK="--only verbs"` writes this page. It runs commands of Kafka's unmodified command-line tools
on three quorumd nodes with three Kafka brokers. The heading of a column is the version of brokers and tools, except
that 4.4.0 is tested with the tools of 4.3.1. A command passes if its exit code and output are those on Kafka.

- static: nodes and brokers have `controller.quorum.voters`.
- dynamic: the quorum was founded with `quorumd format --initial-controllers`; nodes and brokers have
  `controller.quorum.bootstrap.servers`.

`yes`: as on Kafka. `-`: the release does not have the command, or the command needs the tools of that release. A
number: it fails, see the note. `B` stands for the brokers, `C` for the quorumd nodes, names in braces for files and
ids.
"""

_TAIL = """
## ACLs, users, quotas and delegation tokens

quorumd supports client quotas only since most of the runs above: the columns with note 1 are older than that. The
options of Kafka's tools, and the commands of quorumd with the same effect ([security](security.md)):

| Kafka's tool | `quorumd` |
| --- | --- |
| `kafka-acls --add`, `--list`, `--remove` | `acls add`, `list`, `remove` |
| `kafka-configs --entity-type users --alter --add-config SCRAM-SHA-512=[password={password}]` | `users add` |
| `kafka-configs --entity-type users --alter --delete-config SCRAM-SHA-512` | `users remove` |
| `kafka-configs --entity-type users --describe` | `users list`, `quotas list` |
| `kafka-configs --entity-type users`, `clients` or `ips` `--alter --add-config consumer_byte_rate=1` | `quotas set` |
| `kafka-delegation-tokens --create`, `--describe`, `--renew`, `--expire` | `tokens create`, `list`, ... |

ACLs need `authorizer.class.name` on every node and broker. Tokens need `delegation.token.secret.key` there, and a
client that is authenticated with SASL or a TLS certificate. The `ip` of a quota must be an address.

## Share groups of Kafka 4.1

The share coordinators of Kafka 4.1 learn the topics from the first metadata change after their election. quorumd
writes a NoOpRecord every `metadata.max.idle.interval.ms`, as Kafka does; if that is 0, they wait for another change.

## While leaders are killed

Kafka 4.3.1, 2026-11-22, on two busy cores:

- `--only kills --seconds 600`: 58 leaders of the quorum were killed with `kill -9`, and a broker was restarted after
  each tenth, while VerifiableProducer wrote 100 records a second. All 65,484 acknowledged records were consumed,
  none twice. Time to a new leader: 0.46 s (median), 3.23 s (longest).
- `--only controllers --seconds 600`: two quorumd nodes and a Kafka controller as voters. quorumd nodes were killed 26
  times, and another voter led after 3.1 s (median); the Kafka controller was killed 19 times, and another voter led
  after 0.3 s. It led 20 of 46 epochs. All 5,741 acknowledged writes are in the log, whose three copies are identical
  byte for byte. In another run the leader was killed 51 times: the Kafka controller led 22 of 52 epochs, all 6,340
  acknowledged writes survived, and the three logs were identical byte for byte.
"""


def kept() -> Results:
    """Load the results of earlier runs."""
    found: Results = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return found


def keep(column: str, found: Mapping[str, str]) -> None:
    """Replace one column and rewrite the page."""
    results = kept() | {column: dict(found)}
    KEPT.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    PAGE.write_text(page(results))


def page(results: Results) -> str:
    """Render the page in Markdown."""
    columns = sorted(results)
    notes: dict[str, int] = {}
    lines = [_HEAD, _line(["command", *(f"{column.replace(' ', '<br>')}" for column in columns)])]
    lines.append(_line(["---"] * (len(columns) + 1)))
    for row in (*ROWS, *STOPPED_ROWS):
        cells = [_cell(results[column].get(row.command), notes) for column in columns]
        lines.append(_line([f"`{_shown(row.command)}`", *cells]))
    held = [_count(results[column].values()) for column in columns]
    lines.append(_line(["**passed, of those in the release**", *held]))
    text = "\n".join(lines) + "\n"
    if notes:
        text += "\nNotes, with the last line of the tool's output:\n\n"
        text += "".join(f"{number}. {why}\n" for why, number in notes.items())
    return text + _TAIL


def _cell(result: str | None, notes: dict[str, int]) -> str:
    if result is None:
        return "not run"
    if result in (HOLDS, NOT_THERE):
        return result
    return f"**{notes.setdefault(_readable(result), len(notes) + 1)}**"


def _count(found: Iterable[str]) -> str:
    tried = [result for result in found if result != NOT_THERE]
    return f"{tried.count(HOLDS)} of {len(tried)}"


def _shown(command: str) -> str:
    return (
        command.replace("{B}", "--bootstrap-server B")
        .replace("{C}", "--bootstrap-controller C")
        .replace("|", "\\|")
    )


def _readable(why: str) -> str:
    return " ".join(why.replace("|", "\\|").replace("<", "&lt;").split())


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(kept()))
