"""The context of a controller request."""

from __future__ import annotations

from quorumd.controller.request_context import RequestContext, Requester, sender_context


def test_context_of_a_sender_is_shared() -> None:
    context = sender_context("User:alone", True, True)
    assert context == RequestContext(Requester("User:alone", is_token=True), comes_from_broker=True)
    assert sender_context("User:alone", True, True) is context
