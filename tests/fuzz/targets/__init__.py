"""All targets, in the order in which a campaign runs them."""

from __future__ import annotations

from tests.fuzz.targets import files, node, wire

TARGETS = (*wire.TARGETS, *files.TARGETS, *node.TARGETS)
