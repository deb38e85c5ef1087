"""The rights and settings that an administrator has granted, compared with what nodes apply and list.

The model is built only from requests and responses, by the rules in Kafka's documentation: it shares no code with the
authorizer and reads no log. A request without a response may take effect at any later time, or never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from quorumd.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from quorumd.protocol.messages.create_acls_request import CreateAclsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_acls_response import DeleteAclsResponse
from quorumd.protocol.messages.describe_acls_response import DescribeAclsResponse
from quorumd.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from quorumd.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.administered_register import OPEN_OUTCOMES, Register, Value, Write
from quorumd.simulator.checkers.base import InvariantViolation

ANY: Final = 1
TOPIC, GROUP, CLUSTER = 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(2, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS = 10, 11
CLUSTER_NAME: Final = "kafka-cluster"
IMPLIED_BY: Final = {DESCRIBE: (READ, WRITE, DELETE, ALTER), DESCRIBE_CONFIGS: (ALTER_CONFIGS,)}
USERS: Final = ("amy", "ben")
"""The users of the model. Records of `workload.kept_records` name other users."""
PRINCIPALS: Final = (*(f"User:{user}" for user in USERS), "User:*")
DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
CONFIRMED_ERRORS: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Error codes that only a leader returns, after a majority has confirmed its leadership."""


class Entry(NamedTuple):
    """One ACL."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Setting(NamedTuple):
    """A quota of a user, or of a user and a client id, or a SCRAM credential of a user."""

    what: str
    """The key of the quota, or the mechanism of the credential."""
    user: str
    client: str = ""


class Question(NamedTuple):
    """A request of a principal from a host, which is either allowed or denied."""

    principal: str
    host: str
    operation: int
    kind: int
    name: str
    variant: int = 0
    """Which of several requests that need the same right."""

    @property
    def is_decided_by_leader(self) -> bool:
        """Whether a success means that a majority has confirmed the decision."""
        if self.kind == CLUSTER:
            return self.operation == ALTER_CONFIGS or (self.operation == ALTER and self.variant == 0)
        return self.operation in (ALTER, ALTER_CONFIGS, DESCRIBE_CONFIGS)


class Effect(NamedTuple):
    """A write of a request, and the index of the item in the response whose error code decides its outcome."""

    item: int
    register: Register
    write: Write


class AccessRequested(NamedTuple):
    """A request of the administrator."""

    request: Message
    requested_ms: float
    effects: list[Effect]


class Deletion(NamedTuple):
    """One filter of a DeleteAcls request that may not have been applied yet. When it is applied, it deletes all ACLs
    that it selects then, including ACLs created after the request."""

    request: Message
    item: int
    wanted: DeleteAclsFilter
    requested_ms: float


class AccessIsAsGranted:
    """Clients may do what ACLs allow; nodes list the ACLs, quotas and credentials that the administrator has set.

    Followers decide and list what they have applied. A success that the leader has confirmed was allowed between
    request and response.
    """

    invariant = "clients may do what administrators have granted"

    def __init__(self) -> None:
        self.checked = 0
        """The number of decisions and lists compared."""
        self.acls: dict[Entry, Register] = {}
        self.settings: dict[Setting, Register] = {}
        self._deletions: list[Deletion] = []

    def requested(self, request: Message, now_ms: float) -> AccessRequested:
        """Record a request that is about to be sent."""
        effects = [
            Effect(item, register, register.write(value, now_ms))
            for item, register, value in self._writes(request)
        ]
        if isinstance(request, DeleteAclsRequest):
            filters = enumerate(request.filters)
            self._deletions += [Deletion(request, item, wanted, now_ms) for item, wanted in filters]
        return AccessRequested(request, now_ms, effects)

    def _writes(self, request: Message) -> Iterator[tuple[int, Register, Value]]:
        if isinstance(request, CreateAclsRequest):
            for item, made in enumerate(request.creations):
                entry = Entry(
                    made.resource_type, made.resource_name, made.resource_pattern_type,
                    made.principal, made.host, made.operation, made.permission_type,
                )  # fmt: skip
                if entry not in self.acls:
                    self.acls[entry] = self._new_register(entry)
                yield item, self.acls[entry], 1
        elif isinstance(request, DeleteAclsRequest):
            for item, wanted in enumerate(request.filters):
                for entry, register in self.acls.items():
                    if selects(wanted, entry):
                        yield item, register, None
        elif isinstance(request, AlterClientQuotasRequest) and not request.validate_only:
            for item, entity in enumerate(request.entries):
                parts = {part.entity_type: part.entity_name or "" for part in entity.entity}
                for quota in entity.ops:
                    setting = Setting(quota.key, parts["user"], parts.get("client-id", ""))
                    value = None if quota.remove else str(float(quota.value))
                    yield item, self.settings.setdefault(setting, Register()), value
        elif isinstance(request, AlterUserScramCredentialsRequest):
            for item, gone in enumerate(request.deletions):
                setting = Setting(str(gone.mechanism), gone.name)
                yield item, self.settings.setdefault(setting, Register()), None
            for item, put in enumerate(request.upsertions, len(request.deletions)):
                setting = Setting(str(put.mechanism), put.name)
                yield item, self.settings.setdefault(setting, Register()), put.iterations

    def _new_register(self, entry: Entry) -> Register:
        register = Register()
        for deletion in self._deletions:
            if selects(deletion.wanted, entry):
                register.write(None, deletion.requested_ms)
        return register

    def responded(self, requested: AccessRequested, response: Message, now_ms: float) -> None:
        """Record the response to a request. Raises InvariantViolation."""
        codes = _item_codes(response)
        for item, register, write in requested.effects:
            code = codes[item] if item < len(codes) else ErrorCode.UNKNOWN_SERVER_ERROR
            # A deletion finds nothing if there was nothing, or if an earlier attempt has already deleted it.
            register.responded(write, code, (ErrorCode.RESOURCE_NOT_FOUND,), now_ms)
        self._deletions = [
            each
            for each in self._deletions
            if each.request is not requested.request
            or each.item >= len(codes)
            or codes[each.item] in OPEN_OUTCOMES
        ]
        if isinstance(response, DeleteAclsResponse):
            for result in response.filter_results:
                for acl in result.matching_acls:
                    entry = Entry(
                        acl.resource_type, acl.resource_name, acl.pattern_type,
                        acl.principal, acl.host, acl.operation, acl.permission_type,
                    )  # fmt: skip
                    self._expect_set(entry, requested.requested_ms)
        elif (listed := listed_in(response)) is not None:
            self._expect_known(listed)

    def _expect_known(self, listed: Mapping[Entry | Setting, Value]) -> None:
        for key, value in listed.items():
            known = self._register(key)
            if known is None or not known.read_committed(value):
                raise self._violation(f"a node lists {key} as {value!r}")
        self.checked += 1

    def listed(self, response: Message, requested_ms: float, now_ms: float) -> None:
        """Check the list of a node that has applied the whole committed log. Raises InvariantViolation."""
        listed = listed_in(response)
        if listed is None:
            raise self._violation(f"unexpected {response}")
        self._expect_known(listed)
        is_scram = isinstance(response, DescribeUserScramCredentialsResponse)
        registers: list[tuple[Entry | Setting, Register]] = []
        if isinstance(response, DescribeAclsResponse):
            registers += self.acls.items()
        else:
            registers += [each for each in self.settings.items() if each[0].what.isdecimal() == is_scram]
        for key, register in registers:
            value = listed.get(key)
            if not register.read(value, requested_ms, now_ms):
                raise self._violation(
                    f"a node lists {key} as {value!r}; possible are {register.possible(requested_ms)}"
                )

    def decided(self, question: Question, message: Message, requested_ms: float) -> None:
        """Check the response to a client. Raises InvariantViolation."""
        codes = {code for code, _ in errors_in(message)}
        if question.is_decided_by_leader and codes <= CONFIRMED_ERRORS:
            if True not in self.verdicts(question, requested_ms):
                raise self._violation(
                    f"a node has allowed {question} to a client, requested at {requested_ms:.1f} ms"
                )
            self.checked += 1

    def settled(self, question: Question, message: Message, requested_ms: float) -> None:
        """Check the response of a node that has applied the whole committed log. Raises InvariantViolation."""
        codes = {code for code, _ in errors_in(message)}
        if codes & OPEN_OUTCOMES or DENIED.isdisjoint(codes) not in self.verdicts(question, requested_ms):
            raise self._violation(f"a node responds {sorted(codes)} to {question}")
        self.checked += 1

    def verdicts(self, question: Question, requested_ms: float) -> set[bool]:
        """Return the possible verdicts since a time: True if the question may be allowed, False if it may be
        denied."""
        questions = [question]
        if question.operation == DELETE:
            # Everyone who may describe a topic learns that it does not exist.
            questions = [question._replace(operation=DESCRIBE)]
        if question.kind == TOPIC and question.operation in (CREATE, DELETE):
            questions.append(question._replace(kind=CLUSTER, name=CLUSTER_NAME))
        if question.name == METADATA_TOPIC:
            # Nodes find the leader with this request.
            questions.append(question._replace(operation=CLUSTER_ACTION, kind=CLUSTER, name=CLUSTER_NAME))
        decided = [self._decide(each, requested_ms) for each in questions]
        return {
            verdict
            for verdict, possible in (
                (True, any(True in each for each in decided)),
                (False, all(False in each for each in decided)),
            )
            if possible
        }

    def _decide(self, question: Question, requested_ms: float) -> set[bool]:
        possible: dict[int, list[bool]] = {ALLOW: [], DENY: []}
        for entry, register in self.acls.items():
            if concerns(entry, question):
                values = register.possible(requested_ms)
                if 1 in values:
                    possible[entry.permission].append(None not in values)
        may_allow = bool(possible[ALLOW]) and not any(possible[DENY])
        may_deny = bool(possible[DENY]) or not any(possible[ALLOW])
        return {verdict for verdict, is_possible in ((True, may_allow), (False, may_deny)) if is_possible}

    def _expect_set(self, entry: Entry, requested_ms: float) -> None:
        register = self.acls.get(entry)
        if register is None or 1 not in register.possible(requested_ms):
            raise self._violation(f"a node has deleted {entry}, which did not exist")

    def _register(self, key: Entry | Setting) -> Register | None:
        return self.acls.get(key) if isinstance(key, Entry) else self.settings.get(key)

    def _violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)


def selects(wanted: DeleteAclsFilter, entry: Entry) -> bool:
    """Whether a filter of DeleteAcls selects an ACL (KIP-290)."""
    codes = (
        (wanted.resource_type_filter, entry.kind),
        (wanted.operation, entry.operation),
        (wanted.permission_type, entry.permission),
        (wanted.pattern_type_filter if wanted.pattern_type_filter != MATCH else ANY, entry.pattern),
    )
    texts = ((wanted.principal_filter, entry.principal), (wanted.host_filter, entry.host))
    if any(code not in (ANY, own) for code, own in codes) or any(t not in (None, own) for t, own in texts):
        return False
    name = wanted.resource_name_filter
    if name is None or wanted.pattern_type_filter != MATCH:
        return name in (None, entry.name)
    return _is_named(entry, name)


def concerns(entry: Entry, question: Question) -> bool:
    """Whether an ACL applies to a question."""
    operations = {ALL, question.operation}
    if entry.permission == ALLOW:
        operations |= {*IMPLIED_BY.get(question.operation, ())}
    return (
        entry.kind == question.kind
        and _is_named(entry, question.name)
        and entry.principal in (question.principal, "User:*")
        and (entry.host in ("*", question.host) or _is_in_range(question.host, entry.host))
        and entry.operation in operations
    )


def _is_named(entry: Entry, name: str) -> bool:
    if entry.pattern == PREFIXED:
        return name.startswith(entry.name)
    return entry.name in (name, "*")


def _is_in_range(host: str, allowed: str) -> bool:
    """Whether an address is in a range; ranges of the model consist of whole bytes, such as 10.0.10.0/24."""
    address, slash, bits = allowed.partition("/")
    size = int(bits) // 8 if slash else 4
    return host.split(".")[:size] == address.split(".")[:size]


def _item_codes(response: Message) -> list[int]:
    for name in ("results", "filter_results", "entries"):
        items = getattr(response, name, None)
        if items is not None:
            return [getattr(item, "error_code", 0) for item in items]
    return []


def listed_in(response: Message) -> dict[Entry | Setting, Value] | None:
    """Return the values that a node lists for users of the model, None if the response is not a list."""
    found: dict[Entry | Setting, Value] = {}
    if isinstance(response, DescribeAclsResponse) and not response.error_code:
        for resource in response.resources:
            for acl in resource.acls:
                if acl.principal in PRINCIPALS:
                    found[
                        Entry(
                            resource.resource_type, resource.resource_name, resource.pattern_type,
                            acl.principal, acl.host, acl.operation, acl.permission_type,
                        )
                    ] = 1  # fmt: skip
        return found
    if isinstance(response, DescribeClientQuotasResponse) and not response.error_code:
        for entry in response.entries or ():
            parts = {part.entity_type: part.entity_name or "" for part in entry.entity}
            for quota in entry.values if parts.get("user") in USERS else ():
                found[Setting(quota.key, parts["user"], parts.get("client-id", ""))] = str(float(quota.value))
        return found
    if isinstance(response, DescribeUserScramCredentialsResponse) and not response.error_code:
        for result in response.results:
            for info in result.credential_infos if result.user in USERS else ():
                found[Setting(str(info.mechanism), result.user)] = info.iterations
        return found
    return None
