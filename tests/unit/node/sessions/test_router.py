from __future__ import annotations

from typing import Any

from quorumd.node.sessions.router import RequestRouter
from quorumd.protocol.apis import APIS, ApiKey, request_class
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.vote_request import VoteRequest
from quorumd.protocol.routes import Route
from tests.support.node.recording_session import RecordingSession, request_of


def test_private_apis_can_be_left_out() -> None:
    router = RequestRouter(private_apis=False)
    router.add(Route(request_class(key), lambda session, request: None) for key in APIS)
    assert set(router.supported_versions) == {key for key, api in APIS.items() if not api.private}


def test_first_version_of_a_route_limits_what_is_advertised() -> None:
    router = RequestRouter()
    router.add([Route(MetadataRequest, lambda session, request: None, 9)])
    assert router.supported_versions == {ApiKey.METADATA: (9, APIS[ApiKey.METADATA].max_version)}


def test_each_api_has_its_handler_and_no_others_are_advertised() -> None:
    routed: list[tuple[str, Any]] = []
    router = RequestRouter()
    supported_versions = router.supported_versions
    router.add([Route(MetadataRequest, lambda session, request: routed.append(("metadata", request)))])
    router.add([Route(VoteRequest, lambda session, request: routed.append(("vote", request)))])
    metadata, vote = request_of(MetadataRequest([]), 12), request_of(VoteRequest(), 2)
    router.route(RecordingSession(), vote)
    router.route(RecordingSession(), metadata)
    assert routed == [("vote", vote), ("metadata", metadata)]
    assert router.supported_versions is supported_versions, "connections share the table"
    assert supported_versions == {
        key: (APIS[key].min_version, APIS[key].max_version) for key in (ApiKey.METADATA, ApiKey.VOTE)
    }
