"""The counts on the page about verification are those of the code: profiles, faults, invariants, planted bugs."""

from __future__ import annotations

import re
from pathlib import Path

from quorumd.simulator.brokers.checkers import all_checkers
from quorumd.simulator.faults import ALL_FAULTS
from quorumd.simulator.inspection.inspector import Inspector
from quorumd.simulator.profiles.registry import PROFILES
from tests.mutants.catalogue import load_mutants
from tests.mutants.table import load_results, summary

PAGE = Path(__file__).resolve().parents[2] / "docs/verification.md"
TEXT = " ".join(PAGE.read_text(encoding="utf-8").split())


def test_profiles_and_faults_are_counted() -> None:
    assert f"from {len(PROFILES)} profiles and their faults from {len(ALL_FAULTS)} kinds" in TEXT


def test_invariants_are_counted() -> None:
    nodes, brokers = len(Inspector().checkers), len(all_checkers())
    assert f"{nodes} invariants of nodes and {brokers} of brokers" in TEXT


def test_caught_mutants_are_counted() -> None:
    counted = re.match(r"Of (\d+) bugs (\d+) were caught", summary(load_mutants(), load_results()))
    assert counted is not None
    assert f"{counted[2]} of the {counted[1]} bugs are" in TEXT
