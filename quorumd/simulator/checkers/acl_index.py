"""The index of ACLs that the authorizer reads, compared with the ACLs themselves.

A request without a response may or may not have taken effect. Decisions about clients therefore do not show that a
node still applies an ACL that was rolled back, but its index does.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from quorumd.security.acls import AclEntry, AclIndex, Pattern
from quorumd.simulator.checkers.base import InvariantViolation

PREFIXED: Final = 4


class AclIndexHasEveryAcl:
    """The index of an image finds every ACL of the image, and nothing else."""

    invariant = "nodes decide by the ACLs that they have"

    def look(self, node_id: int, index: AclIndex) -> None:
        """Check the index of a node. Raises InvariantViolation."""
        entries: dict[tuple[Pattern, str], list[AclEntry]] = {}
        for acl in index.acls.values():
            entries.setdefault((acl.pattern, acl.principal), []).append(acl.entry)
        for key in (*entries, *index.entries):
            found = index.entries.get(key)
            if found is None or sorted(found) != sorted(entries.get(key, ())):
                raise self._violation(node_id, f"finds {found} of {key}, its ACLs have {entries.get(key)}")
        counts = Counter(acl.pattern for acl in index.acls.values())
        if index.counts != counts:
            raise self._violation(node_id, f"counts {index.counts} by resource, its ACLs are {counts}")
        prefixes = Counter(
            (kind, len(name)) for kind, pattern_type, name in counts if pattern_type == PREFIXED
        )
        lengths = Counter(
            {
                (kind, length): count
                for kind, counted in index.prefix_lengths.items()
                for length, count in counted
            }
        )
        if lengths != prefixes:
            raise self._violation(node_id, f"counts the prefixes {lengths}, its ACLs have {prefixes}")

    def _violation(self, node_id: int, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, f"node {node_id} {text}")
