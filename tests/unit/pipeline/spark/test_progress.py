from __future__ import annotations

from quorumd.pipeline.spark.progress import Progress, Stage, progress_of


def test_tasks_of_active_stages_are_summed() -> None:
    found = progress_of("reading segments", [Stage(10, 4), Stage(3, 0)])
    assert found == Progress("reading segments", 4, 13)


def test_total_is_zero_between_jobs() -> None:
    assert progress_of("", []) == Progress("working")
