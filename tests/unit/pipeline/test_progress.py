from __future__ import annotations

from quorumd.pipeline.progress import Progress, Stage, progress_of


def test_tasks_of_all_stages_at_work_are_added() -> None:
    found = progress_of("reading segments", [Stage(10, 4), Stage(3, 0)], [])
    assert found == Progress("reading segments", 4, 13)


def test_between_jobs_there_is_no_measure() -> None:
    assert progress_of("", [], []) == Progress("working")


def test_a_stream_tells_its_micro_batch_and_rate() -> None:
    report = {"batchId": 7, "numInputRows": 120_000, "processedRowsPerSecond": 98_765.4}
    assert progress_of("following", [], [report]).text == "following, micro-batch 7: 120,000 rows, 98,765/s"


def test_a_stream_that_has_not_reported_yet() -> None:
    assert progress_of("following", [], [{}]).text == "following"
