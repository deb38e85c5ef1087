"""The index of ACLs that the authorizer reads, compared with the ACLs themselves.

A request without a response may or may not have taken effect. Decisions about clients therefore do not show that a
node still applies an ACL that was rolled back, but its index does.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from quorumd.security.acls import AclEntry, AclIndex, Lengths, Pattern, host_key, network_of
from quorumd.simulator.checkers.base import InvariantViolation

PREFIXED: Final = 4


class AclIndexHasEveryAcl:
    """The index of an image finds every ACL of the image, and nothing else."""

    invariant = "nodes decide by the ACLs that they have"

    def look(self, node_id: int, index: AclIndex) -> None:
        """Check the index of a node. Raises InvariantViolation."""
        acls = index.acls.values()
        entries: dict[tuple[Pattern, str, str], list[AclEntry]] = {}
        for acl in acls:
            entries.setdefault((acl.pattern, acl.principal, host_key(acl.host)), []).append(acl.entry)
        found = {
            (*key, host): sorted(some)
            for key, by_host in index.entries.items()
            for host, some in by_host.items()
        }
        self._compare(node_id, "entries", found, {key: sorted(some) for key, some in entries.items()})
        counts = Counter(acl.pattern for acl in acls)
        self._compare(node_id, "numbers by resource", index.counts, counts)
        counted = {
            (right, each): count for right, some in index.rights.items() for each, count in some.items()
        }
        rights = Counter((acl.right, acl.pattern) for acl in acls)
        self._compare(node_id, "resources by right", counted, rights)
        prefixes = Counter(
            (kind, len(name)) for kind, pattern_type, name in counts if pattern_type == PREFIXED
        )
        self._compare(node_id, "numbers of prefixes", index.prefix_counts, prefixes)
        self._compare(node_id, "lengths of prefixes", _lengths(index.prefix_lengths), sorted(prefixes))
        networks = [network for acl in acls if (network := network_of(acl.host)) is not None]
        ranges = Counter((network.version, network.prefixlen) for network in networks)
        self._compare(node_id, "numbers of ranges", index.range_counts, ranges)
        self._compare(node_id, "lengths of ranges", _lengths(index.range_lengths), sorted(ranges))

    def _compare(self, node_id: int, kind: str, found: object, expected: object) -> None:
        if found != expected:
            text = f"node {node_id} has the {kind} {found}, its ACLs have {expected}"
            raise InvariantViolation(self.invariant, text)


def _lengths(lengths: dict[int, Lengths]) -> list[tuple[int, int]]:
    return sorted((kind, length) for kind, some in lengths.items() for length in some)
