"""All targets, in the order in which a campaign runs them."""

from __future__ import annotations

from tests.fuzz.targets import controller, files, node, wire

TARGETS = (*wire.TARGETS, *files.TARGETS, *controller.TARGETS, *node.TARGETS)
