"""The APIs of a broker that need no coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.api.delete_records import DeleteRecordsApis
from quorumd.broker.api.fetch import FetchApis
from quorumd.broker.api.list_offsets import ListOffsetsApis
from quorumd.broker.api.log_dirs import LogDirApis
from quorumd.broker.api.metadata import MetadataApis
from quorumd.broker.api.produce import ProduceApis
from quorumd.broker.api.producers import ProducerApis
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.routes import Handler, Route

_FAMILIES = (ProduceApis, FetchApis, ListOffsetsApis, DeleteRecordsApis, LogDirApis, MetadataApis)


def broker_routes(
    context: BrokerApiContext, init_transactional: Handler[InitProducerIdRequest] | None = None
) -> Iterable[Route]:
    """Return the routes of these APIs; `init_transactional` handles InitProducerId with a transactional id."""
    families = [family(context).routes() for family in _FAMILIES]
    producers = ProducerApis(context, init_transactional).routes()
    return [route for routes in (*families, producers) for route in routes]
