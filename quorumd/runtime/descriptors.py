"""The process's limit of open files: raised at the start, and never used up by connections."""

from __future__ import annotations

import logging
import resource
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

logger = logging.getLogger(__name__)

RESERVED_DESCRIPTORS: Final = 256
"""For segments, indexes, snapshots, outgoing connections and the process itself."""


@dataclass(frozen=True, slots=True)
class DescriptorLimit:
    """The limit of open files of this process. Accepted connections leave a part of it free."""

    limit: int = sys.maxsize

    @property
    def reserved(self) -> int:
        """The number of descriptors that accepted connections leave free. Other nodes of the quorum and HTTP clients,
        which are few, may use half of them."""
        return min(RESERVED_DESCRIPTORS, self.limit // 4)

    def admits(self, descriptor: int, uses_reserve: bool = False) -> bool:
        """Whether a connection with this descriptor leaves the reserve free, or half of it if `uses_reserve`.

        The system assigns the lowest free descriptor, so all below it are in use.
        """
        return descriptor < self.limit - (self.reserved // 2 if uses_reserve else self.reserved)


NO_LIMIT: Final = DescriptorLimit()


def raise_limit(max_connections: int) -> DescriptorLimit:
    """Raise the limit of open files as far as the system permits. Logs a warning if that is not far enough."""
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A sandbox may deny the call, and macOS reports an unlimited hard limit that it does not grant.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        limit = hard
    if limit == resource.RLIM_INFINITY:
        return NO_LIMIT
    needed = max_connections + RESERVED_DESCRIPTORS
    if limit < needed:
        logger.warning(
            "max.connections=%d cannot be reached: the process may open %d files; raise LimitNOFILE (ulimit -Hn) "
            "to %d",
            max_connections,
            limit,
            needed,
        )
    return DescriptorLimit(limit)
