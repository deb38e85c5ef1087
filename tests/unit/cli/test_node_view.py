"""A node's view of the quorum out of its metrics text."""

from __future__ import annotations
