"""The APIs that read ACLs, quotas, SCRAM credentials and delegation tokens, on any node. The APIs that change them
are in `controller_table`.

A follower responds from its image, which has only committed records but may lag. The leader delays a response until
its content is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.controller.acl_requests import DISABLED, describe_acls
from quorumd.controller.client_quotas import describe_client_quotas
from quorumd.controller.delegation_tokens import describe_delegation_tokens
from quorumd.controller.request_context import Requester
from quorumd.controller.scram_requests import describe_user_scram_credentials
from quorumd.controller.security_records import Token
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.sliced_responses import SlicedResponses
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_acls_response import DescribeAclsResponse
from quorumd.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from quorumd.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from quorumd.protocol.routes import Route, Session
from quorumd.security.acls import Operation, ResourceType


class SecurityApis:
    """Handles DescribeAcls, DescribeClientQuotas, DescribeUserScramCredentials and DescribeDelegationToken."""

    def __init__(self, context: ApiContext) -> None:
        self._state_machine = context.metadata.state_machine
        self._responses = SlicedResponses(context)
        self._authorization = context.gates.authorization
        self._secret_key = context.node.settings.controller.token_secret_key

    def routes(self) -> Iterable[Route]:
        return (
            Route(DescribeAclsRequest, self.describe_acls),
            Route(DescribeClientQuotasRequest, self.describe_client_quotas),
            Route(DescribeUserScramCredentialsRequest, self.describe_scram),
            Route(DescribeDelegationTokenRequest, self.describe_tokens),
        )

    def describe_acls(self, session: Session, request: Request[DescribeAclsRequest]) -> None:
        if self._authorization.authorizer is None:
            error = int(ErrorCode.SECURITY_DISABLED)
            session.respond(request, DescribeAclsResponse(0, error, DISABLED))
            return
        machine = self._state_machine
        self._responses.respond(session, request, lambda: describe_acls(machine.image, request.message))

    def describe_client_quotas(self, session: Session, request: Request[DescribeClientQuotasRequest]) -> None:
        machine = self._state_machine
        self._responses.respond(
            session, request, lambda: describe_client_quotas(machine.image, request.message)
        )

    def describe_scram(self, session: Session, request: Request[DescribeUserScramCredentialsRequest]) -> None:
        machine = self._state_machine
        self._responses.respond(
            session, request, lambda: describe_user_scram_credentials(machine.image, request.message)
        )

    def describe_tokens(self, session: Session, request: Request[DescribeDelegationTokenRequest]) -> None:
        """Describe tokens; tokens of other principals need DESCRIBE on the token or DESCRIBE_TOKENS on its owner."""
        access = self._authorization.access(session, request.api_key)
        requester = Requester(session.origin.principal, session.origin.token_authenticated)

        def may_see(token: Token) -> bool:
            return (
                access is None
                or access.allows(
                    Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id, logs_denied=False
                )
                or access.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
            )

        self._responses.respond(
            session,
            request,
            lambda: describe_delegation_tokens(
                self._state_machine.image, request.message, self._secret_key, requester, may_see
            ),
        )
