"""Segments, snapshots and indexes, read by the stock kafka-dump-log and by quorumd.

The nodes must be stopped: a running node preallocates its segment, and the tool fails at the zeros after the records.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.tools import StockTools, without_false_alarms
from tests.support.processes.daemons import Cluster, run_quorumd

CONTROL_RECORDS = {
    "LeaderChange": "LeaderChangeMessage",
    "KRaftVersion": "KRaftVersionRecord",
    "KRaftVoters": "VotersRecord",
    "SnapshotHeader": "SnapshotHeaderRecord",
    "SnapshotFooter": "SnapshotFooterRecord",
}
"""The names of schemas by the tool's names of records."""
COMPLAINTS = ("isvalid: false", "Error at", "Non-consecutive", "Mismatches", "Index offset", "Exception")
_FILE = re.compile(r"^Dumping (.+)$", re.M)
_RECORD = re.compile(r"^\| offset: (\d+) .* headerKeys: \[\] (?:payload: |(\w+):? )(\{.*\})$", re.M)


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a tool prints it."""

    offset: int
    type: str
    version: int | None
    """The version; None for control records."""
    data: Any


def take_snapshots(cluster: Cluster) -> str:
    """Request a snapshot from each running node."""
    for daemon in cluster:
        done = run_quorumd("snapshot", "--config", daemon.config)
        expect(f"exit code of quorumd snapshot: {done.stderr}", done.returncode, 0)
    return f"{len(cluster.daemons)} snapshots"


class Logs:
    """Claims about the partition directories of the metadata logs of stopped nodes."""

    def __init__(self, tools: StockTools, directories: Sequence[Path], scratch: Path) -> None:
        self._tools = tools
        self._directories = directories
        self._scratch = scratch

    def steps(self) -> list[Step]:
        return [
            ("each segment has the records and contents that `quorumd log dump` shows", self.segments),
            ("each snapshot has the records and contents that `quorumd log dump` shows", self.snapshots),
            ("each index agrees with its segment", self.indexes),
            ("a flipped bit is detected", self.damage),
        ]

    def segments(self) -> str:
        files = self._files(".log")
        if len(files) <= len(self._directories):
            raise ClaimBroken(f"one segment per node, expected more: {files}")
        return self._compared(files)

    def snapshots(self) -> str:
        return self._compared(self._files(".checkpoint"))

    def indexes(self) -> str:
        files = self._files(".index") + self._files(".timeindex")
        output = self._dumped(*files)
        entries = len(re.findall(r"^(?:offset|timestamp): ", output, re.M))
        if not entries:
            raise ClaimBroken(f"no entries in {len(files)} indexes")
        return f"{entries} entries in {len(files)} indexes"

    def damage(self) -> str:
        segment = self._files(".log")[0]
        data = bytearray(segment.read_bytes())
        # Change the last record: the CRC covers it, unlike parts of the batch header.
        data[-1] ^= 1
        copy = self._scratch / segment.name
        copy.write_bytes(data)
        done = self._tools.execute(self._tools.dump_log, "--cluster-metadata-decoder", "--files", copy)
        found = _complaints(done.stdout + without_false_alarms(done.stderr))
        if not found:
            raise ClaimBroken("the tool reads a damaged segment without an error")
        return ", ".join(sorted(set(found)))

    def _compared(self, files: Sequence[Path]) -> str:
        records = size = 0
        output = self._dumped(*files)
        parts = _FILE.split(output)[1:]
        expect("files that were read", parts[::2], [str(file) for file in files])
        for file, text in zip(files, parts[1::2], strict=True):
            theirs, ours = stock_reads(text), quorumd_reads(file)
            expect(f"{file}: number of records", len(theirs), len(ours))
            for stock, own in zip(theirs, ours, strict=True):
                if not is_same(stock, own):
                    raise ClaimBroken(f"{file}: {stock} for kafka-dump-log, {own} for quorumd")
            records += len(theirs)
            size += file.stat().st_size
        return f"{records:,} records of {len(files)} files, {size:,} bytes"

    def _dumped(self, *files: Path) -> str:
        names = ",".join(map(str, files))
        output = self._tools.run(self._tools.dump_log, "--cluster-metadata-decoder", "--files", names)
        expect("complaints", _complaints(output), [])
        return output

    def _files(self, suffix: str) -> list[Path]:
        files = [file for directory in self._directories for file in sorted(directory.glob(f"*{suffix}"))]
        if len(files) < len(self._directories):
            raise ClaimBroken(f"{len(files)} files *{suffix}, expected at least one per node")
        return files


def stock_reads(text: str) -> list[Read]:
    """Parse the records in the output of kafka-dump-log."""
    found = []
    for offset, control, document in _RECORD.findall(text):
        data = json.loads(document)
        if control:
            found.append(Read(int(offset), CONTROL_RECORDS.get(control, control), None, data))
        else:
            name = "".join(word.capitalize() for word in data["type"].split("_"))
            found.append(Read(int(offset), name, data["version"], data["data"]))
    lines = len(re.findall(r"^\| offset: ", text, re.M))
    expect("lines of records that can be read", len(found), lines)
    return found


def quorumd_reads(file: Path) -> list[Read]:
    """Parse the records in the output of `quorumd log dump`."""
    done = run_quorumd("log", "dump", "--secrets", "--output", "json", file)
    expect(f"exit code of quorumd log dump {file}: {done.stderr}", done.returncode, 0)
    return [
        Read(record["offset"], record["type"], record.get("version"), record["data"])
        for batch in json.loads(done.stdout)
        for record in batch.get("records", ())
    ]


def is_same(stock: Read, own: Read) -> bool:
    """Return True if both tools show the same record; the stock tool omits fields with default values."""
    return (stock.offset, stock.type, stock.version) == (own.offset, own.type, own.version) and _has(
        own.data, stock.data
    )


def _has(own: Any, stock: Any) -> bool:
    if isinstance(own, dict) and isinstance(stock, dict):
        return all(key in own and _has(own[key], value) for key, value in stock.items())
    if isinstance(own, list) and isinstance(stock, list):
        return len(own) == len(stock) and all(map(_has, own, stock))
    return bool(own == stock) or (isinstance(own, str) and _is_hex_of(own, stock))


def _is_hex_of(own: str, stock: Any) -> bool:
    """Return True if both are the same bytes; kafka-dump-log prints base64."""
    try:
        return bool(b64encode(bytes.fromhex(own)).decode() == stock)
    except ValueError:
        return False


def _complaints(text: str) -> list[str]:
    return [word for line in text.splitlines() for word in COMPLAINTS if word in line]
