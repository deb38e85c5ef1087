"""Decode a log in a Spark session in a separate process, which `speed` starts.

    python -m tests.interop.stock_tools.decode DIRECTORY all | usual

It prints JSON with the last offset and the CPU seconds of all its processes, including Java and Python workers.
"""

from __future__ import annotations

import json
import os
import sys

from quorumd.pipeline.spark.session import spark_session
from scripts.bench.source_pass import USUAL_COLUMNS, tree_cpu_seconds


def main(directory: str, columns: str) -> None:
    with spark_session("local[2]") as spark:
        source = spark.read.format("quorumd").option("path", directory)
        frame = (source.schema(USUAL_COLUMNS) if columns == "usual" else source).load()
        ((last,),) = frame.agg({"offset": "max"}).collect()
        print(json.dumps({"last": last, "cpu_s": tree_cpu_seconds(os.getpid())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
