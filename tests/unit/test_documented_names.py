"""Metrics, properties and modules that the documentation names exist, and its defaults are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quorumd.config import documentation
from quorumd.config.kafka_keys import find
from quorumd.config.references import PARAMETERS, PROVIDERS_KEY
from quorumd.controller.config_table import TOPIC_CONFIGS
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.observability.metrics import METRICS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
WITH_METRICS = [page for page in PAGES if page.name != "contributing-examples.md"]
"""The excluded page shows code, which test_contributing_examples.py compares."""
MONITORING = [ROOT / "config/prometheus.yml", ROOT / "config/grafana-dashboard.json"]
METRIC = re.compile(r"\bquorumd_[a-z_]+")
DOTTED = re.compile(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)(?:=[^`]*)?`")
DEFAULT = re.compile(r"`([a-z][a-z.]+)` \((\d+) ?(ms|s|)\)")
OTHERS = {"quorumd_bootstrap_servers", "quorumd.authorizer"}
"""A fixture of pytest and a logger."""
FILES = (".py", ".toml", ".txt", ".pem", ".checkpoint", ".properties", ".metadata")
AUDIT = (ROOT / "quorumd/pipeline/audit/textfile.py").read_text()
SETTINGS = {key: row for row in documentation() for key in row.keys}


def is_metric(name: str) -> bool:
    if name.startswith("quorumd_audit_"):
        return name in AUDIT or f'"{name.removeprefix("quorumd_audit_")}"' in AUDIT
    return name in {metric.exposed_name for metric in METRICS} | {
        metric.name + suffix
        for metric in METRICS
        for suffix in ("_bucket", "_sum", "_count")
        if metric.kind == "histogram"
    }


def is_property(name: str) -> bool:
    others = {*TOPIC_CONFIGS, PROVIDERS_KEY, f"{PROVIDERS_KEY}.NAME.class"}
    others |= {f"param.{name}" for name in PARAMETERS}
    others |= {"kraft.version", *(feature.name for feature in SUPPORTED_FEATURES)}
    return name in SETTINGS or find(name) is not None or name in others


def is_module(name: str) -> bool:
    """Whether it is a module or package, with or without the packages around it, or a name in a package."""
    tail = name.removeprefix("quorumd.").replace(".", "/")
    package, _, member = name.rpartition(".")
    init = ROOT / package.replace(".", "/") / "__init__.py"
    return any(next(ROOT.glob(f"quorumd/**/{tail}{end}"), None) for end in (".py", "/__init__.py")) or (
        init.exists() and member in init.read_text()
    )


def unknown_names(text: str) -> list[str]:
    """The dotted names in backticks that are neither a property, a file nor a module."""
    names = [name for name in dict.fromkeys(DOTTED.findall(text)) if name not in OTHERS]
    return [name for name in names if not (is_property(name) or name.endswith(FILES) or is_module(name))]


@pytest.mark.parametrize("page", [*WITH_METRICS, *MONITORING], ids=lambda page: page.name)
def test_named_metrics_exist(page: Path) -> None:
    names = set(METRIC.findall(page.read_text())) - OTHERS
    assert {name for name in names if not is_metric(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_properties_and_modules_exist(page: Path) -> None:
    assert unknown_names(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_defaults_are_those_of_the_code(page: Path) -> None:
    for name, value, unit in DEFAULT.findall(page.read_text()):
        assert SETTINGS[name].default == value + unit, name


def test_unknown_names_are_found() -> None:
    assert unknown_names("`log.retension.hours`, `log.dirs`, `node.readyness`, `node.readiness`") == [
        "log.retension.hours",
        "node.readyness",
    ]
    assert not is_metric("quorumd_requests")
    assert not is_metric("quorumd_audit_nothing")
