"""Metrics, properties, modules and other names in the documentation exist, and its defaults are those of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from quorumd.config import documentation as settings
from quorumd.config.kafka_keys import find
from quorumd.config.references import PARAMETERS, PROVIDERS_KEY
from quorumd.controller.config_table import TOPIC_CONFIGS
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.observability.metrics import METRICS
from tests.support import documentation
from tests.support.documentation import ROOT

PAGES = [ROOT / page for page in documentation.PAGES]
WITH_METRICS = [page for page in PAGES if page.name != "contributing-examples.md"]
"""The excluded page shows code, which test_contributing_examples.py compares."""
MONITORING = [ROOT / "config/prometheus.yml", ROOT / "config/grafana-dashboard.json"]
METRIC = re.compile(r"\bquorumd_[a-z_]+")
ABBREVIATED = re.compile(r"\b(quorumd_[a-z_]+)|`\.\.\.(_[a-z_]+)`")
LABELS = re.compile(r"\bby ((?:`[a-z]+`(?:, | and )?)+)")
NAME = re.compile(r"[A-Za-z_]\w*(?:[_-]\w+)+|\w*[a-z][A-Z]\w*")
"""Names of classes, functions, APIs, error codes, planted bugs, ...; commands have test_documented_commands.py."""

CODE = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
DRAFT = {"INVALID_QUORUM_STATE", "MISMATCH_EPOCH", "NOT_QUORUM_LEADER", "INVALID_CLUSTER_ID"}
"""Error codes of the KIP-595 draft that docs/decisions.md compares with those of Kafka."""

SOURCES = (
    *("Makefile", "pyproject.toml", "schemas/*.json", "config/**/*.*", "quorumd/**/*.py", "scripts/**/*.py"),
    *("tests/**/*.py", "tests/**/*.toml", "tests/**/*.txt"),
)
DOTTED = re.compile(r"`([a-z]\w*(?:\.[a-zA-Z]\w*)+)(?:=[^`]*)?`")
DEFAULT = re.compile(r"`([a-z][a-z.]+)` \((\d+) ?(ms|s|)\)")
OTHERS = {"quorumd_bootstrap_servers", "quorumd.authorizer"}
"""A fixture of pytest and a logger."""
FILES = (".py", ".toml", ".txt", ".pem", ".checkpoint", ".properties", ".metadata")
AUDIT = (ROOT / "quorumd/pipeline/audit/textfile.py").read_text()
SETTINGS = {key: row for row in settings() for key in row.keys}


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


def unknown_abbreviations(text: str) -> list[str]:
    """The names `..._x` that continue no beginning of the metric named before them."""
    unknown, before = list[str](), list[str]()
    for metric, ending in ABBREVIATED.findall(text):
        if metric:
            before = metric.split("_")
        elif not any(is_metric("_".join(before[:count]) + ending) for count in range(2, len(before))):
            unknown.append(ending)
    return unknown


def unknown_labels(text: str) -> list[str]:
    """The labels by which no metric of the same line is divided."""
    found = [
        (label, METRIC.findall(line))
        for line in text.splitlines()
        for labels in LABELS.findall(line)
        for label in re.findall(r"`(\w+)`", labels)
    ]
    return [label for label, names in found if names and not any(has_label(name, label) for name in names)]


def has_label(metric: str, label: str) -> bool:
    if metric.startswith("quorumd_audit_"):
        return f'"{label}"' in AUDIT
    return any(label in each.labels for each in METRICS if each.exposed_name == metric)


@cache
def words_of_the_code() -> frozenset[str]:
    """All words of the sources, and the variables that override a property."""
    files = [file for pattern in SOURCES for file in ROOT.glob(pattern) if file != Path(__file__)]
    words = {word for file in files for word in re.findall(r"[\w-]+", file.read_text())}
    return frozenset(words | {f"QUORUMD_{key.replace('.', '_').upper()}" for key in SETTINGS})


def missing_names(text: str) -> list[str]:
    """The names in backticks and the error codes that are nowhere in the code."""
    text = re.sub(r"^```diff\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    quoted = [name.removesuffix("()") for name in re.findall(r"`([^`\n]+)`", text)]
    names = [name for name in quoted if NAME.fullmatch(name)] + CODE.findall(text)
    return [name for name in dict.fromkeys(names) if name not in words_of_the_code() and name not in DRAFT]


@pytest.mark.parametrize("page", [*WITH_METRICS, *MONITORING], ids=lambda page: page.name)
def test_named_metrics_exist(page: Path) -> None:
    names = set(METRIC.findall(page.read_text())) - OTHERS
    assert {name for name in names if not is_metric(name)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_abbreviated_metrics_and_labels_exist(page: Path) -> None:
    assert unknown_abbreviations(page.read_text()) == []
    assert unknown_labels(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_classes_functions_and_codes_exist(page: Path) -> None:
    assert missing_names(page.read_text()) == []


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
    assert missing_names(
        "`LeaderProbes`, `LeaderProbe`, `vote_to_wires()`, NOT_CONTROLLERS, NOT_CONTROLLER"
    ) == [
        *("LeaderProbes", "vote_to_wires", "NOT_CONTROLLERS"),
    ]
    assert unknown_abbreviations("`quorumd_broker_state`, `..._partitions`, `..._partition`") == [
        "_partition"
    ]
    assert unknown_labels("`quorumd_broker_registration_state` by `broker` and `node`") == ["node"]
    assert not is_metric("quorumd_requests")
    assert not is_metric("quorumd_audit_nothing")
