"""The logins and delegation tokens that nodes accept, compared with the credentials and tokens that were set.

The model is built only from requests and responses: it shares no code with the nodes and reads no log. A request
without a response may take effect at any later time, or never. Tokens of other users than those of the model are not
checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.describe_delegation_token_response import DescribedDelegationToken
from quorumd.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from quorumd.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from quorumd.simulator.checkers.administered_register import ANY, OPEN_OUTCOMES, Register, Value, Write
from quorumd.simulator.checkers.base import InvariantViolation
from quorumd.simulator.client_listener import PRINCIPALS

REFUSALS: Final = frozenset(
    {
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
"""Errors that no client gets for a token that it may renew."""
EXPIRY_MARGIN_MS: Final = 500.0
"""A request takes this long at most once faults have ended."""


class Requester(NamedTuple):
    """A client that has logged in."""

    principal: str
    is_token: bool
    """Whether with a token."""


class TokenTerms(NamedTuple):
    """The part of a token that its request determines. Principals are `Type:Name`."""

    owner: str
    requester: str
    renewers: tuple[str, ...] = ()

    @property
    def holders(self) -> frozenset[str]:
        """The principals that may see the token."""
        return frozenset((self.owner, self.requester, *self.renewers))

    def may_renew(self, principal: str) -> bool:
        """Whether a principal may renew the token, or let it expire."""
        return principal == self.owner or principal in self.renewers


@dataclass(slots=True, eq=False)
class KnownToken:
    """A token that exists or has existed. Times are Unix milliseconds."""

    id: str
    hmac: bytes
    terms: TokenTerms
    max_ms: int
    expiry: Register
    """The times at which it expires; None once it is removed, ANY if the time is unknown."""

    def latest_expiry_ms(self) -> int:
        """The latest time at which the token may expire."""
        times = [write.value for write in self.expiry.writes]
        return self.max_ms if ANY in times else max(time for time in times if isinstance(time, int))


@dataclass(slots=True, eq=False)
class Creation:
    """A requested token."""

    terms: TokenTerms
    is_open: bool = True
    """Whether it may take effect, or have taken effect, without a known token."""


@dataclass(slots=True)
class LoginsAreAuthentic:
    """Clients log in only with credentials and tokens that were set; only its holders see, renew and remove a token.

    Followers decide by what they have applied. `can_jump`: whether wall clocks may jump, so that nothing is known of
    the time at which a token expires.
    """

    can_jump: bool = False
    counters: Counter[str] = field(default_factory=Counter)
    scram: dict[tuple[str, str], Register] = field(default_factory=dict)
    """The numbers of the passwords by mechanism and user."""
    tokens: dict[str, KnownToken] = field(default_factory=dict)
    """By id."""
    _creations: list[Creation] = field(default_factory=list)

    invariant = "clients log in with valid credentials"

    # ---- credentials

    def password_of(self, mechanism: str, user: str) -> Register:
        """The register of a user's password for SCRAM."""
        return self.scram.setdefault((mechanism, user), Register())

    def password_changed(self, register: Register, write: Write, error: int, now_ms: float) -> None:
        """Record the response to a changed or removed password."""
        register.responded(write, error, (ErrorCode.RESOURCE_NOT_FOUND,), now_ms)

    def scram_login(self, mechanism: str, user: str, number: int, succeeded: bool) -> None:
        """Check a login at a node that may lag. Raises InvariantViolation."""
        self.counters[f"login: {'success' if succeeded else 'failure'}"] += 1
        if succeeded and not self.password_of(mechanism, user).read_committed(number):
            raise self._violation(f"{user} has logged in with password {number} for {mechanism}, never set")

    def settled_login(
        self, mechanism: str, user: str, number: int, succeeded: bool, requested_ms: float
    ) -> None:
        """Check a login at a node that has applied the whole committed log. Raises InvariantViolation."""
        possible = self.password_of(mechanism, user).possible(requested_ms)
        if succeeded not in {value == number for value in possible}:
            raise self._violation(
                f"{user} {'has' if succeeded else 'has not'} logged in with password {number} for {mechanism}; "
                f"possible are {possible}"
            )

    def known_login(self, text: str, is_valid: bool, succeeded: bool) -> None:
        """Check a login whose outcome depends on no state of the cluster. Raises InvariantViolation."""
        self.counters[f"login: {'success' if succeeded else 'failure'}"] += 1
        if succeeded != is_valid:
            raise self._violation(f"{text} {'has' if succeeded else 'has not'} logged in")

    def refuse(self, text: str) -> None:
        """Raise InvariantViolation for a response that must not exist."""
        raise self._violation(text)

    # ---- tokens

    def creation_requested(self, terms: TokenTerms) -> Creation:
        """Record the request for a token."""
        found = Creation(terms)
        self._creations.append(found)
        return found

    def created(self, creation: Creation, response: CreateDelegationTokenResponse, may_create: bool) -> None:
        """Record and check the response. Raises InvariantViolation."""
        error, terms = response.error_code, creation.terms
        self.counters[f"token created: {ErrorCode(error).name}"] += 1
        if error in OPEN_OUTCOMES:
            return
        creation.is_open = False
        if error:
            return
        if not may_create:
            raise self._violation(f"{terms.requester} must not create {terms}: {response!r}")
        owner = f"{response.principal_type}:{response.principal_name}"
        requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        if (owner, requester) != (terms.owner, terms.requester):
            raise self._violation(f"{terms} was requested; {requester} got a token of {owner}")
        if not response.issue_timestamp_ms <= response.expiry_timestamp_ms <= response.max_timestamp_ms:
            raise self._violation(f"a token has the times of {response!r}")
        known = self.tokens.get(response.token_id)
        if known is None:
            known = self._add(response.token_id, response.hmac, terms, response.max_timestamp_ms)
        known.expiry.writes[0].value = response.expiry_timestamp_ms

    def _add(self, id: str, hmac: bytes, terms: TokenTerms, max_ms: int) -> KnownToken:
        known = self.tokens[id] = KnownToken(id, hmac, terms, max_ms, Register(ANY))
        return known

    def expiry_responded(
        self,
        token: KnownToken | None,
        write: Write | None,
        requester: Requester,
        response: RenewDelegationTokenResponse | ExpireDelegationTokenResponse,
        requested_ms: float,
        now_ms: float,
    ) -> None:
        """Record and check the response to a renewal, or to a change of the expiry. `token`: None for an HMAC of no
        token. Raises InvariantViolation."""
        error = response.error_code
        self.counters[f"token changed: {ErrorCode(error).name}"] += 1
        if error in OPEN_OUTCOMES:
            return
        principal, is_token = requester
        if is_token and not error:
            raise self._violation(f"{response!r} to a client that has logged in with a token")
        if token is None or write is None:
            if not error:
                raise self._violation(f"{response!r} for an HMAC of no token")
            return
        may_renew = not is_token and token.terms.may_renew(principal)
        token.expiry.refuse(write)
        if error:
            if error in REFUSALS and may_renew:
                raise self._violation(f"{response!r} to {principal} for {token.terms}")
            return
        if not may_renew:
            raise self._violation(f"{principal} has changed the expiry of {token.terms}")
        if all(value is None for value in token.expiry.possible(requested_ms)):
            raise self._violation(f"{principal} has changed the expiry of {token.id}, which was removed")
        if write.value is not None:
            if response.expiry_timestamp_ms > token.max_ms:
                raise self._violation(f"{token.id} expires after the end of its lifetime: {response!r}")
            write.value = response.expiry_timestamp_ms
        token.expiry.writes.append(write)
        write.complete(now_ms)

    def token_login(self, token: KnownToken, is_right: bool, succeeded: bool, wall_ms: float) -> None:
        """Check a login with a token, requested at this Unix time of the node. `is_right`: whether with the HMAC of
        the token. Raises InvariantViolation."""
        self.counters[f"login with a token: {'success' if succeeded else 'failure'}"] += 1
        if succeeded and not is_right:
            raise self._violation(f"a client has logged in with a wrong HMAC of {token.id}")
        if succeeded and not self.can_jump and wall_ms > token.latest_expiry_ms():
            raise self._violation(f"a client has logged in at {wall_ms:.0f} ms with {token}")

    def settled_token_login(
        self, token: KnownToken, succeeded: bool, requested_ms: float, walls_ms: Collection[float]
    ) -> None:
        """Check a login with the right HMAC at a node that has applied the whole committed log. `walls_ms`: the time
        of every node at the request. Raises InvariantViolation."""
        possible = token.expiry.possible(requested_ms)
        if succeeded and all(value is None for value in possible):
            raise self._violation(f"a client has logged in with {token.id}, which was removed")
        if not succeeded and not any(self._may_be_gone(value, walls_ms) for value in possible):
            raise self._violation(f"no client can log in with {token.id}, which expires at one of {possible}")

    def _may_be_gone(self, expires: Value, walls_ms: Collection[float]) -> bool:
        """Whether a token with this expiry may be expired, or removed after it was."""
        return self.can_jump or not isinstance(expires, int) or expires <= max(walls_ms) + EXPIRY_MARGIN_MS

    def listed(
        self,
        tokens: Collection[DescribedDelegationToken],
        principal: str,
        owners: Collection[str] | None,
        sees_all: bool,
    ) -> None:
        """Check the tokens that a node lists to a principal that has requested those of `owners`, None for all.
        Raises InvariantViolation."""
        self.counters["lists of tokens"] += 1
        for each in tokens:
            terms = _terms_of(each)
            if terms.owner not in PRINCIPALS:
                continue
            if owners is not None and terms.holders.isdisjoint(owners):
                raise self._violation(f"{terms} is listed to {principal}, which requested {sorted(owners)}")
            if not sees_all and principal not in terms.holders:
                raise self._violation(f"{principal} sees {terms}")
            self._expect_known(each, terms)

    def _expect_known(self, each: DescribedDelegationToken, terms: TokenTerms) -> None:
        known = self.tokens.get(each.token_id)
        if known is None:
            creation = next(self._open_creations(terms), None)
            if creation is None:
                raise self._violation(f"a node lists {each.token_id}: {terms}, which was not requested")
            creation.is_open = False
            known = self._add(each.token_id, each.hmac, terms, each.max_timestamp)
        shown = (each.hmac, terms, each.max_timestamp)
        if shown != (known.hmac, known.terms, known.max_ms):
            raise self._violation(f"a node lists {shown}, but the token is {known}")
        if not known.expiry.read_committed(each.expiry_timestamp):
            raise self._violation(f"a node lists {each.expiry_timestamp} as the expiry of {known}")

    def _open_creations(self, terms: TokenTerms) -> Iterator[Creation]:
        return (each for each in self._creations if each.is_open and each.terms == terms)

    def settled_list(
        self,
        tokens: Collection[DescribedDelegationToken],
        principal: str,
        sees_all: bool,
        requested_ms: float,
        walls_ms: Collection[float],
    ) -> None:
        """Check the list of all tokens at a node that has applied the whole committed log. Raises
        InvariantViolation."""
        self.listed(tokens, principal, None, sees_all)
        ids = {each.token_id for each in tokens}
        for token in self.tokens.values():
            possible = token.expiry.possible(requested_ms)
            if token.id in ids:
                if all(value is None for value in possible):
                    raise self._violation(f"a node lists {token.id}, which was removed")
            elif (sees_all or principal in token.terms.holders) and not any(
                self._may_be_gone(value, walls_ms) for value in possible
            ):
                raise self._violation(f"a node does not list {token.id}, which expires at {possible}")

    def _violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)


def _terms_of(each: DescribedDelegationToken) -> TokenTerms:
    return TokenTerms(
        f"{each.principal_type}:{each.principal_name}",
        f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
    )
