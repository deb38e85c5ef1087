"""Values of the configs that decide about partitions, as the image reads them.

Unlike requests (`config_values`), the log may hold any text.
"""

from __future__ import annotations


def parse_min_isr(value: str | None) -> int:
    """Parse a value of min.insync.replicas; 1 if it is not set or is not a number."""
    try:
        return max(1, int(value or 1))
    except ValueError:
        return 1


def allows_unclean_election(value: str | None) -> bool:
    """Parse a value of unclean.leader.election.enable."""
    return value is not None and value.strip().lower() == "true"
