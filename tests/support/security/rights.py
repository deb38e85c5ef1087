"""Authorizers, ACLs and requests for tests of rights."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from quorumd.broker.api.rights import Check, Rule, Ruling
from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message
from quorumd.security.acls import Acl, PatternType, Permission, ResourceType
from quorumd.security.authorizer import Access, Authorizer, AuthorizerSettings, Client
from tests.support.protocol.steps import run_steps
from tests.support.security.index import index_of

ALICE = "User:alice"


def allow(operation: int, kind: int, name: str) -> Acl:
    """Return an ACL that allows alice an operation on a resource."""
    return Acl(kind, PatternType.LITERAL, name, ALICE, "*", operation, Permission.ALLOW)


def on_cluster(operation: int) -> Acl:
    """Return an ACL that allows alice an operation on the cluster."""
    return allow(operation, ResourceType.CLUSTER, "kafka-cluster")


def authorizer_of(acls: Iterable[Acl] = (), supers: Iterable[str] = ()) -> Authorizer:
    """Return an authorizer with these ACLs."""
    index = index_of(acls)
    return Authorizer(AuthorizerSettings(frozenset(supers)), lambda: index, lambda: True, lambda: 0.0)


def received(message: Message, version: int) -> Request[Message]:
    """Return a request as a node receives it in this version."""
    assert message.API_KEY is not None
    copy = decode(type(message), version, encode(message, version))
    return Request(message.API_KEY, version, 1, "client", copy, b"", 0)


def ruling_of(rule: Rule, checked: Check) -> Ruling:
    """Return the ruling of a rule, which may decide in steps."""
    ruling = rule(checked)
    return run_steps(ruling)[1] if isinstance(ruling, Generator) else ruling


def check(
    message: Message, version: int, acls: Iterable[Acl] = (), image: ClusterImage | None = None
) -> Check:
    """Return a check of a request of alice."""
    access = Access(authorizer_of(acls), Client(ALICE, "10.0.0.1", message.NAME))
    return Check(access, image or ClusterImage(), received(message, version))
