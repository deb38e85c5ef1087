"""Authorization of requests, in one place: every route of a node is checked here if an authorizer is configured.

Most requests are checked before they reach their handler. Requests to the controller are checked by the leader, part
by part if they are large, just before they are executed: a node that does not lead forwards them, with the principal
of the client.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, cast

from quorumd.broker.api.rights import Check, Close, Extend, R, Rule, Ruling, Steps
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.node.api.controller_table import CONTROLLER_APIS
from quorumd.node.api.error_responses import APIS_WITH_ERROR_RESPONSE, ENVELOPE_APIS, error_response
from quorumd.node.api.forwarding import decode_response
from quorumd.node.api.rights import NODE_RULES
from quorumd.node.leader_role import LeaderRole
from quorumd.node.sessions.delegating_session import DelegatingSession
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.apis import APIS, ApiKey, request_class, response_class
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.response_errors import errors_in, top_level_error
from quorumd.protocol.routes import Handler, Route, Session, SlicedTask
from quorumd.protocol.stepped_task import SteppedTask
from quorumd.protocol.wire import Message
from quorumd.security.authorizer import Access, Authorizer, AuthorizerNotReady, Client

CHECKED_BY_LEADER: Final = frozenset({*CONTROLLER_APIS, ApiKey.DESCRIBE_CONFIGS})
"""APIs whose handlers call `RequestAuthorization.admit` themselves, when they execute the request."""
UNITS_AT_ONCE: Final = 100
"""Units of a rule in steps that are decided before any other event is handled."""


class RequestAuthorization:
    """Authorizes requests. Without an authorizer it allows everything and leaves the routes unchanged.

    `image()` returns the metadata that this node has applied, and `begin` runs a task in slices.
    """

    def __init__(
        self,
        authorizer: Authorizer | None,
        image: Callable[[], ClusterImage],
        role: LeaderRole,
        statistics: NodeStatistics,
        begin: Callable[[SlicedTask], None],
    ) -> None:
        self.authorizer = authorizer
        self._image = image
        self._role = role
        self._statistics = statistics
        self._begin = begin

    def serves(self, listener: str) -> bool:
        """Whether the listener serves requests: if not in `early.start.listeners`, only once the ACLs are loaded."""
        authorizer = self.authorizer
        return (
            authorizer is None
            or listener in authorizer.settings.early_start_listeners
            or authorizer.is_loaded()
        )

    def guard(self, routes: Iterable[Route], rules: Mapping[int, Rule] = NODE_RULES) -> Iterable[Route]:
        """Return routes that check the client's rights before they call the handler.

        Raises KeyError for an API without a rule, which would be open to everyone.
        """
        if self.authorizer is None:
            return routes
        return [self._guarded(route, rules[route.api_key]) for route in routes]

    def _guarded(self, route: Route, rule: Rule) -> Route:
        key, handler = route.api_key, route.handler
        if key in CHECKED_BY_LEADER:
            return route
        is_forwarded = key in ENVELOPE_APIS

        def handle(session: Session, request: Request[Message]) -> None:
            if session.origin.is_internal or (is_forwarded and not self._role.is_leader):
                handler(session, request)
                return
            ruling = self._ruling(rule, session, request)
            if isinstance(ruling, Generator):
                self._decide(ruling, session, request, handler)
                return
            admitted = self._follow(ruling, session, request)
            if admitted is not None:
                handler(admitted, request)

        return Route(request_class(key), handle, route.min_version)

    def admit(self, session: Session, request: Request[Message]) -> Session | None:
        """Check a request that is about to be executed. Returns the session for its response, or None if the request
        was refused and its response sent."""
        if self.authorizer is None or session.origin.is_internal:
            return session
        ruling = self._ruling(NODE_RULES[request.api_key], session, request)
        assert not isinstance(ruling, Generator), "requests to the controller are divided into parts instead"
        return self._follow(ruling, session, request)

    def access(self, session: Session, api_key: int) -> Access | None:
        """The rights of a client; None if it may do everything, as this process itself and without an authorizer."""
        if self.authorizer is None or session.origin.is_internal:
            return None
        return Access(
            self.authorizer, Client(session.origin.principal, session.origin.host, APIS[api_key].name)
        )

    def _ruling(self, rule: Rule, session: Session, request: Request[Message]) -> Ruling | Steps:
        access = self.access(session, request.api_key)
        assert access is not None
        try:
            return rule(Check(access, self._image(), request))
        except AuthorizerNotReady:
            return _not_ready(request)

    def _decide(
        self, steps: Steps, session: Session, request: Request[Message], handler: Handler[Message]
    ) -> None:
        """Decide in slices, while later requests of the session wait, and call the handler if that is admitted."""

        def on_ruling(ruling: Ruling) -> None:
            admitted = self._follow(ruling, session, request)
            if admitted is not None:
                handler(admitted, request)

        task = SteppedTask(_until_ready(steps, request), on_ruling)
        task.advance(UNITS_AT_ONCE)
        if not task.is_done:
            session.block(request, task.cancel)
            self._begin(task)

    def _follow(self, ruling: Ruling, session: Session, request: Request[Message]) -> Session | None:
        """Return the session for the response of an admitted request; respond to another one and return None."""
        if ruling is None:
            return session
        if isinstance(ruling, Close):
            session.close()
            return None
        if not isinstance(ruling, Extend):
            self._respond(session, request, ruling)
            return None
        if not ruling.is_complete:
            return ExtendedSession(session, ruling)
        response = response_class(request.api_key)()
        ruling.hook(response)
        self._respond(session, request, response)
        return None

    def _respond(self, session: Session, request: Request[Message], response: Message) -> None:
        for error, _ in errors_in(response):
            self._statistics.count_error(request.api_key, error)
        session.respond(request, response)


def _until_ready(steps: Steps, request: Request[Message]) -> Steps:
    """The steps of a rule, which return an error before the ACLs are loaded."""
    try:
        return (yield from steps)
    except AuthorizerNotReady:
        return _not_ready(request)


def _not_ready(request: Request[Message]) -> Message:
    """The response before the ACLs are loaded. Kafka has no error code for this case."""
    return _error_of_any_api(request, ErrorCode.UNKNOWN_SERVER_ERROR)


def _error_of_any_api(request: Request[Message], error: ErrorCode) -> Message:
    """The response with this error; one without any error if the API has errors in items only."""
    if request.api_key in APIS_WITH_ERROR_RESPONSE:
        return error_response(request, error)
    return top_level_error(request.api_key, error)


class ExtendedSession(DelegatingSession):
    """Extends the response to one request on its way to the client."""

    def __init__(self, outer: Session, ruling: Extend[R]) -> None:
        super().__init__(outer)
        # A rule receives only responses of its own API.
        self._hook = cast("Callable[[Message], None]", ruling.hook)
        self._extend_part = cast("Callable[[Message], None]", ruling.extend_part)

    def respond(self, request: Request[Message], message: Message) -> None:
        self._hook(message)
        self.outer.respond(request, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self._hook(message)
        self.outer.respond_immediately(request, message)

    def extend(self, message: Message, is_rest: bool = True) -> Session:
        (self._hook if is_rest else self._extend_part)(message)
        return self.outer.extend(message, is_rest)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        try:
            message = decode_response(request, response)
        except MalformedMessage:
            refused = _error_of_any_api(request, ErrorCode.UNKNOWN_SERVER_ERROR)
            # An error that the version of the request cannot express would read as success.
            if errors_in(decode_response(request, encode_response(request, refused))):
                self.outer.respond(request, refused)
            else:
                self.outer.close()
            return
        self.respond(request, message)
