from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from quorumd.errors import JobFailed
from quorumd.pipeline.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session shared by all Spark tests, because starting it is expensive."""
    session = spark_session(master="local[2]", profile="small")
    try:
        started = session.__enter__()
    except JobFailed as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield started
    finally:
        session.__exit__(None, None, None)
