"""The source through Spark; its decisions are tested without Spark in tests/unit/pipeline."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.audit.audit import audit, audit_here, judge
from quorumd.pipeline.copies.log_files import read_directories
from quorumd.pipeline.decode import decode_records
from quorumd.pipeline.scan.batches import read_pieces
from quorumd.pipeline.spark.failures import failure_of
from quorumd.pipeline.tables.schemas import BATCHES, RECORDS
from scripts.log_generator import GeneratedLog, LogShape, generate

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
SHAPE = LogShape(records=20_000, segment_bytes=200_000, nodes=2, epoch_records=4_000)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    return generate(tmp_path_factory.mktemp("log"), SHAPE)


def path_of(log: GeneratedLog) -> str:
    return ",".join(f"{node}={directory}" for node, directory in log.directories.items())


def load(spark: SparkSession, path: str, schema: str | None = None, **options: str | int) -> DataFrame:
    reader = spark.read.format("quorumd").option("path", path)
    for name, value in options.items():
        reader = reader.option(name, value)
    return (reader.schema(schema) if schema else reader).load()


def decoded(log: GeneratedLog) -> pa.Table:
    """All rows, decoded without Spark."""
    return pa.Table.from_batches(
        decode_records(data, scanned.batches, directory.node, segment.name, position)
        for directory in read_directories({node: str(path) for node, path in log.directories.items()})
        for segment in directory.segments
        for data, position, scanned in read_pieces(segment.path)
    )


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("node", "ascending"), ("offset", "ascending")])


def failure(frame: DataFrame) -> Exception:
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    return failure_of(raised.value, None)


def test_rows_equal_decoder_output_in_schema_columns(spark: SparkSession, log: GeneratedLog) -> None:
    rows = load(spark, path_of(log), packBytes=300_000, splitBytes=70_000).toArrow()
    assert rows.schema.names == list(RECORDS.names)
    expected = in_order(decoded(log))
    assert in_order(rows).cast(expected.schema).equals(expected)


@pytest.mark.parametrize(
    "condition",
    [
        "offset = 7777",
        "offset >= 5000 AND offset < 5003 AND node = 2",
        "base_offset > 19000 OR offset < 3",
        "epoch IN (2, 3) AND type_name = 'LeaderChangeMessage'",
        "ts >= timestamp'2023-11-14 22:13:20.002' AND ts < timestamp'2023-11-14 22:13:20.1905'",
        "NOT (offset > 10) AND node IS NOT NULL",
        "node IN (2, 9)",
        "leader = 3 AND offset BETWEEN 100 AND 4000",
    ],
)
def test_pushed_filter_returns_same_rows(spark: SparkSession, log: GeneratedLog, condition: str) -> None:
    found = []
    for is_pushed in ("true", "false"):
        spark.conf.set(PUSH_DOWN, is_pushed)
        try:
            frame = load(
                spark,
                path_of(log),
                "node INT, offset BIGINT, base_offset BIGINT, epoch INT, ts TIMESTAMP, "
                "type_name STRING, leader INT",
            ).where(condition)
            found.append(in_order(frame.toArrow()))
        finally:
            spark.conf.set(PUSH_DOWN, "true")
    assert found[0].num_rows > 0
    assert found[0].equals(found[1])


def test_offset_options_apply_within_batches(spark: SparkSession, log: GeneratedLog) -> None:
    rows = load(spark, f"1={log.directories[1]}", "offset BIGINT", startingOffset=4_321, endingOffset=9_876)
    assert sorted(row.offset for row in rows.collect()) == list(range(4_321, 9_876))
    batches = load(spark, f"1={log.directories[1]}", level="batches").collect()
    (middle,) = [batch for batch in batches if batch.base_offset <= 9_999 < batch.end_offset]
    at = int(middle.ts.timestamp() * 1000)
    later = load(spark, f"1={log.directories[1]}", "offset BIGINT", startingTimestamp=at).collect()
    assert min(row.offset for row in later) == middle.base_offset
    assert len(later) == log.end_offset - middle.base_offset


def test_batches_cover_log_without_gaps(spark: SparkSession, log: GeneratedLog) -> None:
    rows = (
        load(spark, f"2={log.directories[2]}", level="batches", splitBytes=50_000)
        .orderBy("base_offset")
        .collect()
    )
    assert rows[0].asDict().keys() == set(BATCHES.names)
    assert [row.end_offset for row in rows[:-1]] == [row.base_offset for row in rows[1:]]
    assert rows[-1].end_offset == log.end_offset
    assert all(row.crc == row.stored_crc and row.fault is None and row.node == 2 for row in rows)


def test_source_as_sql_view(spark: SparkSession, log: GeneratedLog) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW log USING quorumd OPTIONS (path '{log.directories[1]}', level 'batches')"
    )
    try:
        assert spark.sql("SELECT max(end_offset) FROM log").first() == (log.end_offset,)
    finally:
        spark.catalog.dropTempView("log")


@pytest.fixture
def damaged(log: GeneratedLog, tmp_path: Path) -> tuple[Path, int, int]:
    """A copy of node 1 with a flipped bit in a record, and the position and base offset of its batch."""
    directory = tmp_path / "node-1"
    shutil.copytree(log.directories[1], directory)
    (read,) = read_directories({1: str(directory)})
    segment = Path(read.segments[2].path)
    _, position, scanned = next(iter(read_pieces(segment)))
    at = position + int(scanned.batches.position[7])
    data = bytearray(segment.read_bytes())
    data[at + 70] ^= 1
    segment.write_bytes(data)
    return segment, at, int(scanned.batches.base_offset[7])


def test_damage_fails_read_with_its_position(spark: SparkSession, damaged: tuple[Path, int, int]) -> None:
    segment, position, offset = damaged
    reported = failure(load(spark, str(segment.parent)))
    assert isinstance(reported, InputIncomplete)
    assert str(reported).startswith(f"{segment}, position {position}, offset {offset}: BAD_CRC: ")
    assert "\n" not in str(reported)
    before = load(spark, str(segment.parent), "offset BIGINT").where(f"offset < {offset - 100}")
    assert before.count() == offset - 100, "what is not read cannot fail"


def test_damage_is_skipped_or_reported_as_rows(
    spark: SparkSession, log: GeneratedLog, damaged: tuple[Path, int, int]
) -> None:
    segment, position, offset = damaged
    skipped = load(spark, str(segment.parent), "offset BIGINT", onCorrupt="skip").count()
    rows = load(spark, str(segment.parent), onCorrupt="report")
    (fault,) = rows.where("fault IS NOT NULL").collect()
    assert (fault.segment, fault.position, fault.offset, fault.type) == (segment.name, position, offset, None)
    assert fault.fault.startswith("BAD_CRC: ")
    assert rows.where("fault IS NULL").count() == skipped < log.end_offset
    batches = load(spark, str(segment.parent), level="batches", onCorrupt="report")
    (batch,) = batches.where("fault IS NOT NULL").collect()
    assert (batch.position, batch.base_offset) == (position, offset)
    assert batch.crc != batch.stored_crc
    assert skipped == log.end_offset - batch.records


def test_missing_input_is_reported_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    reported = failure(load(spark, str(tmp_path / "nowhere"), "offset BIGINT"))
    assert isinstance(reported, InputIncomplete)
    assert "nowhere of node 0 cannot be listed: No such file" in str(reported)
    assert isinstance(failure(load(spark, str(tmp_path), "ofset BIGINT")), ConfigError)


def test_audit_does_not_depend_on_splits(spark: SparkSession, log: GeneratedLog) -> None:
    directories = {node: str(path) for node, path in log.directories.items()}
    plain = audit_here(directories)
    assert plain.is_clean
    rows = load(spark, path_of(log), level="audit", splitBytes=60_000).toArrow()
    found = judge({directory.node: directory for directory in read_directories(directories)}, rows, 100_000)
    assert found.document() == plain.document()
    assert audit(spark, directories).document() == plain.document()
