"""The scripts of clients that log in: what they send on one connection, and what they may expect."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator
from random import Random
from typing import Final

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.protocol.messages import alter_configs_request as replacements
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from quorumd.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.security.sasl import scram
from quorumd.security.sasl.plain import PLAIN, PlainClient
from quorumd.simulator.checkers.access import ALTER_CONFIGS, GROUP, AccessIsAsGranted, Question
from quorumd.simulator.checkers.administered_register import ANY
from quorumd.simulator.checkers.logins import KnownToken, LoginsAreAuthentic, Requester, TokenTerms
from quorumd.simulator.client_listener import (
    LIFETIMES_MS,
    PASSWORDS,
    PRINCIPALS,
    USERS,
    plain_password,
    scram_password,
)
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload.access_requests import CONFIGS, GENERATION_MS, TIMEOUT_MS
from quorumd.simulator.workload.conversation import HEADERLESS, LoginResult, Pause, Script, Step, log_in

Steps = Generator[Step, Message | None, Message | None]
LoginSteps = Generator[Step, Message | None, LoginResult | None]
Continues = Generator[Step, Message | None, bool]
"""Returns whether the connection is still open."""

HOST: Final = "10.0.15.1"
"""The host of a client. ACLs treat all clients alike: those of single hosts name others."""
STRANGER: Final = "eve"
REAUTHENTICATION_MS: Final = 1000.0
"""A login sooner than this after another one is rejected."""
TOKENS_VERSION: Final = 3
MAX_REQUESTS: Final = 5
MALFORMED: Final = (
    b"",
    b"\xff\xff",
    b"carl",
    b"\0carl\0",
    b"dora\0carl\0carl-plain",
    b"n,,n=carl,r=",
    b"p=x,,",
)
"""First tokens that no mechanism accepts."""
UNSUPPORTED: Final = ("GSSAPI", "", "OAUTHBEARER")


class LoginScripts:
    """Draws scripts, and reports what they receive to `checker`, and to `granted` what its users may do."""

    def __init__(
        self, cluster: Cluster, random: Random, checker: LoginsAreAuthentic, granted: AccessIsAsGranted
    ) -> None:
        self._granted = granted
        self._cluster = cluster
        self._heap = cluster.heap
        self._random = random
        self._checker = checker
        self._slowest = 1.0 - cluster.options.clock_drift

    def session(self, user: str, machine: Machine) -> Script:
        """Draw the script of a connection of a user to a node."""
        if self._random.random() < 0.25:
            yield from self._random.choice((self._early_request, self._wrong_order, self._malformed))()
            return
        tokens = list(self._checker.tokens.values())
        if tokens and self._random.random() < 0.3:
            token = self._random.choice(tokens)
            result = yield from self.token_login(token, self._random.random() < 0.8, machine)
            requester = Requester(token.terms.owner, True)
        else:
            mechanism = self._random.choice((PLAIN, *scram.BY_NAME))
            result = yield from self._login(mechanism, user)
            self._check_lifetime(mechanism, result)
            requester = Requester(f"User:{user}", False)
        if result is None or result.error:
            return
        for _ in range(1 + self._random.randrange(MAX_REQUESTS)):
            if not (yield from self._use(requester)):
                return
        if not requester.is_token:
            yield from self._last(mechanism, user, result.lifetime_ms)

    def _check_lifetime(self, mechanism: str, result: LoginResult | None) -> None:
        limit_ms = LIFETIMES_MS.get(mechanism, 0)
        if result is not None and not result.error and result.lifetime_ms is not None:
            is_right = 0 < result.lifetime_ms <= limit_ms if limit_ms else result.lifetime_ms == 0
            if not is_right:
                self._checker.refuse(f"a login with {mechanism} is valid for {result.lifetime_ms} ms")

    # ---- logins

    def _login(self, mechanism: str, user: str) -> LoginSteps:
        if mechanism == PLAIN:
            return (yield from self.plain_login(user, self._random.random() < 0.9))
        possible = self._checker.password_of(mechanism, user).possible(self._heap.now_ms)
        known = [each for each in possible if isinstance(each, int)]
        is_likely = known and self._random.random() < 0.8
        number = self._random.choice(known) if is_likely else self._random.randrange(PASSWORDS)
        result = yield from self.scram_login(mechanism, user, number, self._handshake_version())
        if result is not None:
            self._checker.scram_login(mechanism, user, number, not result.error)
        return result

    def plain_login(self, user: str, is_right: bool) -> LoginSteps:
        """Log in with PLAIN, and check the outcome."""
        password = plain_password(user) if is_right else plain_password(STRANGER)
        result = yield from log_in(PlainClient(user, password), self._handshake_version())
        if result is not None or not is_right:
            self._checker.known_login(
                f"{user} with {password!r}", is_right, result is not None and not result.error
            )
        return result

    def scram_login(self, mechanism: str, user: str, number: int, handshake_version: int = 1) -> LoginSteps:
        """Log in with SCRAM."""
        password = scram_password(user, number)
        client = scram.ScramClient(scram.BY_NAME[mechanism], user, password, self._nonce())
        return (yield from log_in(client, handshake_version))

    def token_login(self, token: KnownToken, is_right: bool, machine: Machine) -> LoginSteps:
        """Log in with a token, and check the outcome."""
        hmac = token.hmac if is_right else token.hmac[::-1]
        mechanism = self._random.choice(scram.MECHANISMS)
        password = b64encode(hmac).decode()
        wall_ms = machine.time.wall_offset_ms + self._heap.now_ms * machine.time.rate
        client = scram.ScramClient(mechanism, token.id, password, self._nonce(), is_token=True)
        result = yield from log_in(client)
        if result is not None:
            self._checker.token_login(token, is_right, not result.error, wall_ms)
        return result

    def _nonce(self) -> str:
        return f"{self._random.getrandbits(64):x}"

    def _handshake_version(self) -> int:
        return 0 if self._random.random() < 0.2 else 1

    # ---- requests after a login

    def _use(self, requester: Requester) -> Continues:
        kinds = [self._create, self._create, self._describe, self._change_expiry, self._change_expiry]
        kinds += (
            [self._find_nodes, self._use_right] if self._cluster.options.access_ms else [self._find_nodes]
        )
        return (yield from self._random.choice(kinds)(requester))

    def _create(self, requester: Requester) -> Continues:
        random, principal = self._random, requester.principal
        owner = random.choice(PRINCIPALS) if random.random() < 0.3 else principal
        renewers = tuple(random.sample(PRINCIPALS, random.choice((0, 0, 1, 2))))
        is_known_type = random.random() < 0.95
        names_owner = owner != principal or random.random() < 0.5
        owner_type, owner_name = owner.split(":") if names_owner else (None, None)
        request = CreateDelegationTokenRequest(
            owner_type,
            owner_name,
            renewers=[CreatableRenewers(*each.split(":")) for each in renewers],
            max_lifetime_ms=random.choice((-1, -1, 300, 3000, 1 << 62)),
        )
        if not is_known_type:
            request.renewers.append(CreatableRenewers("Group", "all"))
        may_create = is_known_type and not requester.is_token
        may_create &= owner == principal or not self._cluster.options.access_ms
        creation = self._checker.creation_requested(TokenTerms(owner, principal, renewers))
        response = yield request, TOKENS_VERSION
        if isinstance(response, CreateDelegationTokenResponse):
            self._checker.created(creation, response, may_create)
        return response is not None

    def _change_expiry(self, requester: Requester) -> Continues:
        random, began_ms = self._random, self._heap.now_ms
        tokens = list(self._checker.tokens.values())
        token = random.choice(tokens) if tokens and random.random() < 0.9 else None
        hmac = random.randbytes(64) if token is None else token.hmac
        request: Message
        if random.random() < 0.5:
            request = RenewDelegationTokenRequest(hmac, random.choice((-1, -1, 0, 500, 1 << 62)))
            removes = False
        else:
            period_ms = random.choice((-1, 0, 500, 3000, 1 << 40))
            request = ExpireDelegationTokenRequest(hmac, period_ms)
            removes = period_ms < 0
        write = None if token is None else token.expiry.write(None if removes else ANY, began_ms)
        response = yield request, request.MAX_VERSION
        if isinstance(response, (RenewDelegationTokenResponse, ExpireDelegationTokenResponse)):
            self._checker.expiry_responded(token, write, requester, response, began_ms, self._heap.now_ms)
        return response is not None

    def _describe(self, requester: Requester) -> Continues:
        owners = self._random.choice(
            (None, None, [requester.principal], [self._random.choice(PRINCIPALS)], [])
        )
        response = yield describe_request(owners), TOKENS_VERSION
        if isinstance(response, DescribeDelegationTokenResponse) and not response.error_code:
            if requester.is_token:
                self._checker.refuse(f"{response!r} to a client that has logged in with a token")
            sees_all = not self._cluster.options.access_ms
            self._checker.listed(response.tokens, requester.principal, owners, sees_all)
        return response is not None

    def _find_nodes(self, requester: Requester) -> Continues:
        del requester
        request, version = self._random.choice(
            (
                (DescribeClusterRequest(False, 2), 1),
                (DescribeClusterRequest(False, 1), 1),
                (MetadataRequest(None), 12),
            )
        )
        return (yield request, version) is not None

    def _use_right(self, requester: Requester) -> Continues:
        """Send a request without an effect that only clients with a right may send."""
        random, requested_ms = self._random, self._heap.now_ms
        name = f"a{int(requested_ms / GENERATION_MS)}.{random.randrange(2)}"
        config = replacements.AlterableConfig(*CONFIGS[GROUP][1:], "1000")
        resource = replacements.AlterConfigsResource(CONFIGS[GROUP][0], name, [config])
        change = replacements.AlterConfigsRequest([resource], validate_only=True)
        new_topics = [CreatableTopic(each, 1, 1) for each in (name, f"{name}.other")]
        request: Message = random.choice(
            (
                change,
                change,
                CreateTopicsRequest(new_topics, TIMEOUT_MS, True),
                DeleteTopicsRequest([DeleteTopicState(name), DeleteTopicState(f"{name}.other")]),
                DeleteTopicsRequest([DeleteTopicState(None, KafkaUuid(random.randbytes(16)))]),
                MetadataRequest([MetadataRequestTopic(ZERO_UUID, METADATA_TOPIC)]),
            )
        )
        response = yield request, min(request.MAX_VERSION, 7)
        if response is not None and request is change:
            question = Question(requester.principal, HOST, ALTER_CONFIGS, GROUP, name)
            self._granted.decided(question, response, requested_ms)
        return response is not None

    # ---- the last requests of a connection

    def _last(self, mechanism: str, user: str, lifetime_ms: int | None) -> Script:
        way = self._random.random()
        if way < 0.3 and lifetime_ms:
            yield Pause(lifetime_ms / self._slowest + 1.0)
            yield from self._expect_end(f"{user} has not logged in again within {lifetime_ms} ms")
        elif way < 0.7:
            yield from self._login_again(mechanism, user)

    def _login_again(self, mechanism: str, user: str) -> Script:
        """Log in again: too soon, in time, as another user, or with another mechanism."""
        way = self._random.randrange(4)
        if way > 0:
            yield Pause(REAUTHENTICATION_MS / self._slowest + 1.0)
        if way == 2:
            other = next(each for each in USERS if each != user)
            result = yield from self.scram_or_plain(mechanism, other)
            if result is not None and not result.error:
                self._checker.refuse(f"{user} has become {other} on one connection")
        elif way == 3:
            other = next(each for each in (PLAIN, *scram.BY_NAME) if each != mechanism)
            yield from self._expect_error(
                SaslHandshakeRequest(other),
                1,
                {ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE},
            )
        else:
            result = yield from self.scram_or_plain(mechanism, user)
            if result is not None and not result.error:
                yield ApiVersionsRequest("client", "1"), 3

    def scram_or_plain(self, mechanism: str, user: str) -> LoginSteps:
        """Log in with a password that was valid at some time."""
        if mechanism == PLAIN:
            return (yield from log_in(PlainClient(user, plain_password(user))))
        values = [write.value for write in self._checker.password_of(mechanism, user).writes]
        numbers = [each for each in values if isinstance(each, int)]
        return (yield from self.scram_login(mechanism, user, numbers[-1] if numbers else 0))

    # ---- mistakes before a login

    def _early_request(self) -> Script:
        """Send a request that is not allowed before, or during, the login."""
        early: tuple[Message, int] = self._random.choice(
            ((MetadataRequest(None), 12), (describe_request(None), TOKENS_VERSION))
        )
        if self._random.random() < 0.5:
            response = yield SaslHandshakeRequest(PLAIN), 1
            if response is None:
                return
            early = (ApiVersionsRequest("client", "1"), 3)
        elif (yield ApiVersionsRequest("client", "1"), 3) is None:
            return
        if (yield early) is not None:
            self._checker.refuse(f"{early[0]!r} has a response before the login")

    def _wrong_order(self) -> Script:
        way = self._random.randrange(3)
        if way == 0:
            yield from self._expect_error(
                SaslAuthenticateRequest(b"\0carl\0carl-plain"), 2, {ErrorCode.ILLEGAL_SASL_STATE}
            )
            yield from self._expect_end("a client without a handshake")
        elif way == 1:
            if (yield SaslHandshakeRequest(PLAIN), 1) is not None:
                yield from self._expect_error(SaslHandshakeRequest(PLAIN), 1, {ErrorCode.ILLEGAL_SASL_STATE})
        else:
            yield from self._expect_error(
                SaslHandshakeRequest(self._random.choice(UNSUPPORTED)),
                1,
                {ErrorCode.UNSUPPORTED_SASL_MECHANISM},
            )
            yield from self._expect_end("a client with an unsupported mechanism")

    def _malformed(self) -> Script:
        mechanism, version = self._random.choice((PLAIN, *scram.BY_NAME)), self._handshake_version()
        response = yield SaslHandshakeRequest(mechanism), version
        if not isinstance(response, SaslHandshakeResponse):
            return
        token = SaslAuthenticateRequest(self._random.choice(MALFORMED))
        response = yield token, 2 if version else HEADERLESS
        if response is not None and not any(code for code, _ in errors_in(response)):
            self._checker.refuse(f"{mechanism} has accepted {token!r}")
        yield from self._expect_end("a client that failed to log in")

    def _expect_error(self, request: Message, version: int, expected: set[ErrorCode]) -> Script:
        response = yield request, version
        codes = {code for code, _ in errors_in(response)} if response is not None else expected
        if not codes or not codes <= expected:
            self._checker.refuse(f"{request!r} has the errors {sorted(codes)}, expected {sorted(expected)}")

    def _expect_end(self, text: str) -> Script:
        response = yield ApiVersionsRequest("client", "1"), 3
        if response is not None:
            self._checker.refuse(f"{text} has a response: {response!r}")


def describe_request(owners: list[str] | None) -> DescribeDelegationTokenRequest:
    """Return the request for the tokens of owners, of all if None."""
    if owners is None:
        return DescribeDelegationTokenRequest(None)
    return DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(*each.split(":")) for each in owners])
