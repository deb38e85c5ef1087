from __future__ import annotations

from quorumd.pipeline.spark.progress import Progress, Stage, progress_of


def test_tasks_of_all_stages_at_work_are_added() -> None:
    found = progress_of("reading segments", [Stage(10, 4), Stage(3, 0)])
    assert found == Progress("reading segments", 4, 13)


def test_between_jobs_there_is_no_measure() -> None:
    assert progress_of("", []) == Progress("working")
