"""The APIs that list and describe transactions."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from quorumd.broker.api.context import AccessLookup, may_describe
from quorumd.broker.api.coordinator_lookup import TransactionLookup
from quorumd.broker.coordinator.transaction import TransactionState
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_transactions_response as described
from quorumd.protocol.messages import list_transactions_response as listed
from quorumd.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.response_task import begin_response
from quorumd.protocol.routes import Route, Session, SlicedTask
from quorumd.security.acls import ResourceType
from quorumd.security.authorizer import Access


class TransactionAdminApis:
    """Handlers of ListTransactions and DescribeTransactions. `begin` runs a task in slices."""

    def __init__(
        self, transactions: TransactionLookup, access: AccessLookup, begin: Callable[[SlicedTask], None]
    ) -> None:
        self._transactions = transactions
        self._access = access
        self._begin = begin

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (
            Route(ListTransactionsRequest, self.list_transactions),
            Route(DescribeTransactionsRequest, self.describe_transactions),
        )

    def list_transactions(self, session: Session, request: Request[ListTransactionsRequest]) -> None:
        """List the transactional ids of every loaded partition that the client may describe, in slices."""
        access = self._access(session, ApiKey.LIST_TRANSACTIONS)
        begin_response(session, request, self._listed(request.message, access), self._begin)

    def _listed(
        self, message: ListTransactionsRequest, access: Access | None
    ) -> Generator[None, None, listed.ListTransactionsResponse]:
        known_states = {state.title for state in TransactionState}
        states: set[str] = set()
        unknown: list[str] = []
        for name in message.state_filters:
            if name in known_states:
                states.add(name)
            else:
                unknown.append(name)
            yield
        producer_ids: set[int] = set()
        for producer_id in message.producer_id_filters:
            producer_ids.add(producer_id)
            yield
        error = ErrorCode.NONE
        found = []
        for shard in self._transactions.all():
            if not shard.is_active:
                error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                continue
            now_ms = self._transactions.times().wall_ms
            for transactional_id, known in list(shard.machine.transactions.items()):
                yield
                duration_ms = now_ms - known.start_ms if known.start_ms >= 0 else -1
                is_chosen = (
                    (not message.state_filters or known.state.title in states)
                    and (not producer_ids or known.producer_id in producer_ids)
                    and (message.duration_filter < 0 or duration_ms > message.duration_filter)
                    and may_describe(access, ResourceType.TRANSACTIONAL_ID, transactional_id)
                )
                if is_chosen:
                    found.append(
                        listed.TransactionState(transactional_id, known.producer_id, known.state.title)
                    )
        failed = error is not ErrorCode.NONE
        return listed.ListTransactionsResponse(0, error, unknown, [] if failed else found)

    def describe_transactions(self, session: Session, request: Request[DescribeTransactionsRequest]) -> None:
        """Describe transactional ids."""
        states = [self._describe(each) for each in request.message.transactional_ids]
        session.respond(request, described.DescribeTransactionsResponse(0, states))

    def _describe(self, transactional_id: str) -> described.TransactionState:
        known = self._transactions.get(
            transactional_id, lambda machine, times: machine.transactions.get(transactional_id)
        )
        if isinstance(known, ErrorCode):
            return described.TransactionState(known, transactional_id)
        if known is None:
            return described.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(known.partitions):
            topics.setdefault(topic, []).append(number)
        return described.TransactionState(
            0,
            transactional_id,
            known.state.title,
            known.timeout_ms,
            known.start_ms,
            known.producer_id,
            known.epoch,
            [described.TopicData(*each) for each in topics.items()],
        )
