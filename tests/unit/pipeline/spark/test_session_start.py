"""quorumd.pipeline.spark.session: optimizations of the start, none of which is required."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from py4j.protocol import Py4JError

from quorumd.pipeline.spark import session


class Java:
    """Accepts any call; an incompatible Spark raises an error."""

    def __getattr__(self, name: str) -> Any:
        return Refusal() if name == "SparkSession" else self

    def __call__(self, *arguments: Any) -> Java:
        return self


class Refusal:
    def __call__(self, *arguments: Any) -> None:
        raise Py4JError("no such constructor")


class Context:
    _jvm = Java()
    _jsc = Java()


def test_incompatible_spark_session_api_is_tolerated() -> None:
    context: Any = Context()
    assert session._without_extensions(context) is None


def test_modules_are_imported_while_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "FORKED_S", 0.0)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with session._importing(("no_such_module", "colorsys")):
        pass
    assert "colorsys" in sys.modules
