"""Write the report of a run: report.md, timeline.svg and rounds.json."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.fleet.history import NO_RESPONSE, OK
from tests.chaos.history import Histories
from tests.chaos.rounds import Round
from tests.chaos.timeline import timeline_svg
from tests.chaos.verdict import Verdict

SHOWN_ANOMALIES = 20
FAULTS = {
    "cut link": "existing and new connections are reset",
    "stalled link": "data is held and delivered late, in one direction or both",
    "slow link": "all data is delayed by 30 to 300 ms",
    "one-way drop": "data in one direction is dropped",
    "kill -9": "and a restart",
    "kill -9 of all": "and a restart of all",
    "SIGSTOP": "and SIGCONT",
    "clock offset": "a restart with a wall clock up to 30 days off",
    "full disk": "the file system shrinks to its content",
    "failed flush": "a flush fails with EIO; the node must end with exit code 4",
    "rolling restart": "SIGTERM and a restart, one node after the other",
    "voter change": "other nodes become the voters, one step at a time",
}


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a run, which its report shows."""

    rounds: list[Round]
    histories: Histories
    verdict: Verdict
    began_ms: float
    seconds: float
    nodes: int
    seed: int
    disk_kind: str
    machine: str
    """A summary of the machine's stalls."""
    audit: str = ""
    """The output of the audit of the logs."""


def write_report(run: Run, directory: Path) -> None:
    """Write all files of the report into a directory."""
    (directory / "report.md").write_text(report(run), encoding="utf-8")
    acknowledged = run.histories.acknowledged_between(run.began_ms, float("inf"))
    seconds = [(moment - run.began_ms) / 1000 for moment in acknowledged]
    (directory / "timeline.svg").write_text(timeline_svg(run.rounds, seconds), encoding="utf-8")
    (directory / "rounds.json").write_text(json.dumps([asdict(each) for each in run.rounds], indent=1))


def report(run: Run) -> str:
    """Render the report in Markdown."""
    anomalies = run.verdict.anomalies
    judged = f"{len(anomalies)} anomalies" if anomalies else "no anomaly"
    lines = [
        "# Chaos on real processes",
        "",
        f"{len(run.rounds)} rounds in {run.seconds / 60:.1f} minutes on {run.nodes} nodes: **{judged}**. "
        f"Seed {run.seed}; the disk that fills is {run.disk_kind}.",
        "",
        f"The machine itself {run.machine}; timeouts exclude lost time, unavailability includes it.",
        "",
        *(f"- {anomaly}" for anomaly in anomalies[:SHOWN_ANOMALIES]),
        *([""] if anomalies else []),
        "![Acknowledged writes, and the rounds by kind of fault](timeline.svg)",
        "",
        "## Faults",
        "",
        *_faults(run.rounds),
        "",
        "The unavailability of a round is the longest time without an acknowledged write from the injection of "
        "its first fault until all nodes have caught up again. A round with two faults counts for both.",
        "",
        *_voter_changes(run.rounds),
        "## Operations",
        "",
        *_operations(run.histories),
        "",
        "A write or append of unknown outcome is ambiguous: it may take effect at any time, or never, and the "
        f"checker allows each case. {ambiguous_writes(run.histories):,} were ambiguous. Reads of unknown outcome are "
        "ignored.",
        "",
        *_brokers(run),
        *_checks(run),
        *(["## Audit of the logs", "", "```", *run.audit.splitlines(), "```", ""] if run.audit else []),
    ]
    return "\n".join(lines)


def _faults(rounds: Sequence[Round]) -> list[str]:
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    not_felt: Counter[str] = Counter()
    for each in rounds:
        for kind in each.kinds:
            by_kind[kind].append(each.unavailable_ms)
        not_felt.update(each.not_felt)
    rows = ["| fault | what happens | rounds | unavailable p50 | max |", "|---|---|---:|---:|---:|"]
    for kind, meaning in FAULTS.items():
        if not (times := by_kind[kind]):
            continue
        missed = f" ({not_felt[kind]} not felt)" if not_felt[kind] else ""
        rows.append(f"| {kind} | {meaning} | {len(times)}{missed} | {_spread(times)} |")
    together = sum(len(each.kinds) > 1 for each in rounds)
    rows.append(
        f"| **all** | {together} rounds with two faults | {len(rounds)} | "
        f"{_spread([each.unavailable_ms for each in rounds])} |"
    )
    return rows


def _voter_changes(rounds: Sequence[Round]) -> list[str]:
    changes = [each for each in rounds if each.reassigned_ms is not None]
    if not changes:
        return []
    rows = ["| voters changed | reassignments | kill -9 | took p50 | max | unavailable p50 | max |"]
    rows.append("|---" + "|---:" * 6 + "|")
    undisturbed = [each for each in changes if not each.kills]
    disturbed = [each for each in changes if each.kills]
    for name, some in (("undisturbed", undisturbed), ("processes killed", disturbed), ("**all**", changes)):
        took = _spread([each.reassigned_ms or 0.0 for each in some])
        unavailable = _spread([each.unavailable_ms for each in some])
        kills = sum(each.kills for each in some)
        rows.append(f"| {name} | {len(some)} | {kills} | {took} | {unavailable} |")
    again = [f"- round {each.number}: {text}" for each in changes for text in each.retries]
    return [
        "## Reassignments",
        "",
        *rows,
        "",
        "A reassignment lasts from its first request until the quorum has exactly the target voters and no change "
        "in progress.",
        "",
        *(["Retries of the operator:", "", *again, ""] if again else []),
    ]


def _spread(times_ms: list[float]) -> str:
    if not times_ms:
        return "- | -"
    return f"{percentile(times_ms, 50) / 1000:.2f} s | {max(times_ms) / 1000:.2f} s"


def percentile(values: list[float], percent: float) -> float:
    """Return the smallest value that `percent` of the values do not exceed (nearest rank)."""
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(0, int(rank) - 1)]


def _operations(histories: Histories) -> list[str]:
    outcomes = histories.outcomes()
    kinds = ("write", "append", "read")
    names = sorted(
        {outcome for _, outcome in outcomes}, key=lambda name: (name != "ok", name != "not sent", name)
    )
    rows = ["| outcome | " + " | ".join(kinds) + " | all |", "|---" + "|---:" * 4 + "|"]
    for name in names:
        counts = [outcomes[kind, name] for kind in kinds]
        meaning = {"ok": "ok", "not sent": "not sent (no effect)"}.get(name, f"unknown: {name}")
        rows.append(f"| {meaning} | " + " | ".join(f"{count:,}" for count in [*counts, sum(counts)]) + " |")
    return rows


def _brokers(run: Run) -> list[str]:
    outcomes, image = run.verdict.fleet.outcomes, run.verdict.folded and run.verdict.folded.image
    if not outcomes or not image:
        return []
    rows = ["| request | ok | no response | error |", "|---|---:|---:|---|"]
    for what in sorted({what for what, _ in outcomes}):
        errors = {name: count for (of, name), count in sorted(outcomes.items()) if of == what}
        well, missing = errors.pop(OK, 0), errors.pop(NO_RESPONSE, 0)
        names = ", ".join(f"{name}: {count:,}" for name, count in errors.items())
        rows.append(f"| {what} | {well:,} | {missing:,} | {names} |")
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    return [
        "## Brokers",
        "",
        *rows,
        "",
        f"Requests of {len(image.brokers)} brokers without data, which fail and shut down in turn, and of their "
        f"administrator. {len(run.verdict.fleet.created):,} topics were created, {len(run.verdict.fleet.deleted):,} "
        f"deleted; {len(image.topics)} with {partitions} partitions remain, with every replica in sync.",
        "",
    ]


def ambiguous_writes(histories: Histories) -> int:
    """Count the writes and appends with an unknown outcome."""
    return sum(entry.is_write and entry.outcome not in ("ok", "not sent") for entry in histories.entries)


def _checks(run: Run) -> list[str]:
    verdict = run.verdict
    if not verdict.keys:
        return ["The run ended before its histories were checked."]
    operations = sum(entry.outcome != "not sent" for entry in run.histories.entries)
    return [
        "## Checked at the end",
        "",
        f"- {operations:,} operations on {verdict.keys:,} registers and lists are linearizable, including a "
        "last read of every key.",
        f"- The logs of all nodes are equal byte by byte below the high watermark {verdict.high_watermark:,}: "
        f"{verdict.log_bytes:,} bytes in {verdict.segments:,} segments.",
        "- Every acknowledged write of a register is in the log, and no value is there twice.",
        "- The image of every node has the same hash as the image of its log.",
        f"- Every ISR acknowledged to a broker ({len(verdict.fleet.isrs):,}), and every topic created or deleted, "
        "is in the log.",
        f"- {verdict.epochs:,} epochs had a leader, and no epoch had two.",
        "- No node ended by itself except after a failed flush, and none printed a traceback.",
        *(["", "A line that an anomaly above contradicts does not hold."] if verdict.anomalies else []),
        "",
    ]
