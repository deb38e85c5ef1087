"""Reads a segment like the data pipeline, without Spark, and prints the time; see `pipeline_decode`.

    python decode_pass.py '{"do": "headers" | "scan" | "decode" | "ids", "file": "...", "repeat": N}'

`headers` does not check CRCs, `scan` does, `decode` decodes all columns of all records, `ids` only four columns. It
prints one JSON object with the times of the best pass, and imports only quorumd, so that any package can be measured.
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
    """Run one pass; return the numbers of batches and records."""
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
    job = json.loads(sys.argv[1])
    print(json.dumps(measure(job["file"], job["do"], job["repeat"])))
