"""All targets, in the order in which a campaign runs them."""

from __future__ import annotations

from tests.fuzz.targets import controller, files, node, pipeline, regexes, security, wire

TARGETS = (
    *wire.TARGETS,
    *files.TARGETS,
    *controller.TARGETS,
    *node.TARGETS,
    *security.TARGETS,
    *pipeline.TARGETS,
    *regexes.TARGETS,
)
