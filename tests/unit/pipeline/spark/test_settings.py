from __future__ import annotations

import sys
from pathlib import Path

import pytest

from quorumd.pipeline.spark.java import Java
from quorumd.pipeline.spark.settings import archive_options, cores, environment, settings

JAVA = Java("/opt/java", 17, "17.0.15")
PYTHON = Path("/scratch/python")


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "spark://127.0.0.1:7077", "spark://localhost:1"]
)
def test_local_session_binds_to_loopback(master: str) -> None:
    found = settings(master, "big", {})
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert environment({}, JAVA, master, {}, PYTHON)["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://10.0.0.7:7077", "yarn", "spark://127.example.org:7077"])
def test_remote_workers_can_reach_driver(master: str) -> None:
    assert "spark.driver.bindAddress" not in settings(master, "big", {})
    assert "SPARK_LOCAL_IP" not in environment({}, JAVA, master, {}, PYTHON)


def test_user_settings_take_precedence_except_master() -> None:
    found = settings("local[2]", "small", {"spark.driver.memory": "9g", "spark.master": "yarn"})
    assert found["spark.driver.memory"] == "9g"
    assert found["spark.master"] == "local[2]"


def test_user_java_options_are_appended() -> None:
    found = settings("local[2]", "small", {"spark.driver.extraJavaOptions": "-Dmine=1"}, ("-Dours=1",))
    options = found["spark.driver.extraJavaOptions"].split()
    assert options[-1] == "-Dmine=1"
    assert {"-Dours=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC"} < set(options)


@pytest.mark.parametrize("profile", ["small", "big"])
def test_arrow_cell_checks_are_disabled(profile: str) -> None:
    name = "spark.executor.extraJavaOptions"
    found = settings("spark://10.0.0.7:7077", profile, {name: "-Dmine=1"})
    for options in (found["spark.driver.extraJavaOptions"].split(), found[name].split()):
        assert "-Darrow.enable_unsafe_memory_access=true" in options
        assert "-Darrow.enable_null_check_for_get=false" in options
    assert found[name].split()[-1] == "-Dmine=1"


def test_big_profile_has_full_compiler_and_partitions_per_core() -> None:
    found = settings("local[3]", "big", {})
    assert "TieredStopAtLevel" not in found["spark.driver.extraJavaOptions"]
    assert found["spark.sql.shuffle.partitions"] == "12"
    assert "spark.sql.shuffle.partitions" not in settings("spark://10.0.0.7:7077", "big", {})


def test_thin_profile_has_quick_java_and_big_memory() -> None:
    thin, big = (settings("local[3]", profile, {}) for profile in ("thin", "big"))
    assert "TieredStopAtLevel" in thin.pop("spark.driver.extraJavaOptions")
    del big["spark.driver.extraJavaOptions"]
    assert thin == big | {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }


def test_cores_of_local_master_are_parsed() -> None:
    assert [cores(master) for master in ("local", "local[5]", "local[5,2]")] == [1, 5, 5]
    assert cores("local[*]") >= 1


def test_local_workers_run_own_python() -> None:
    found = environment({"PYSPARK_PYTHON": "/usr/bin/python3"}, JAVA, "local[*]", {}, PYTHON)
    assert found["PYSPARK_PYTHON"] == str(PYTHON)
    assert found["OPENBLAS_NUM_THREADS"] == "1"
    requests = environment({"OPENBLAS_NUM_THREADS": "4"}, JAVA, "local[*]", {}, PYTHON)
    assert requests["OPENBLAS_NUM_THREADS"] == "4"
    assert found["JAVA_HOME"] == "/opt/java"


def test_cluster_workers_run_configured_python() -> None:
    def workers(present: dict[str, str], conf: dict[str, str]) -> str:
        return environment(present, JAVA, "spark://10.0.0.7:7077", conf, PYTHON)["PYSPARK_PYTHON"]

    reported = {"PYSPARK_PYTHON": "/env/python"}
    assert workers(reported, {"spark.pyspark.python": "/conf/python"}) == "/conf/python"
    assert workers(reported, {}) == "/env/python"
    assert workers({}, {}) == sys.executable


def test_existing_archive_is_used(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    assert archive_options(None, None) == ()
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(archive, None)
    assert archive_options(archive, tmp_path / "new.jsa") == (f"-XX:ArchiveClassesAtExit={tmp_path}/new.jsa",)
