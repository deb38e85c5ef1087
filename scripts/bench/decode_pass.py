"""Reads a segment as the data pipeline does, without Spark, and tells how long that took; see `pipeline_decode`.

    python decode_pass.py '{"do": "headers" | "scan" | "decode" | "ids", "file": "...", "repeat": N}'

`headers` believes the CRCs, `scan` computes them, `decode` makes all columns of all records, `ids` four of them.
Prints one JSON object; the times are those of the best pass. Imports nothing but quorumd, so that it can be run with
whatever package is measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from quorumd.pipeline.decode import decode_records, records_table
from quorumd.pipeline.scan.batches import read_pieces

COLUMNS = {"decode": records_table().names, "ids": ("offset", "type", "topic_id", "partition")}


def read(file: str, do: str) -> tuple[int, int]:
    """One pass: how many batches, and how many records."""
    batches = records = 0
    for data, position, scanned in read_pieces(file, with_crc=do != "headers"):
        if scanned.faults:
            raise SystemExit(f"{file} is damaged: {scanned.faults[0]}")
        batches += len(scanned.batches)
        if do in COLUMNS:
            rows = decode_records(data, scanned.batches, 1, file, position, COLUMNS[do])
            records += int(rows.num_rows)
        else:
            records += int(scanned.batches.count.sum())
    return batches, records


def measure(file: str, do: str, repeat: int) -> dict[str, Any]:
    passes = []
    for _ in range(repeat):
        cpu_began, began = time.process_time(), time.perf_counter()
        batches, records = read(file, do)
        passes.append((time.process_time() - cpu_began, time.perf_counter() - began))
    return {
        "batches": batches,
        "records": records,
        "bytes": os.path.getsize(file),
        "cpu_seconds": min(cpu for cpu, _ in passes),
        "seconds": min(seconds for _, seconds in passes),
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(measure(asked["file"], asked["do"], asked["repeat"])))
