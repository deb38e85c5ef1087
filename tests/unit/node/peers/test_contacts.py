"""Peers that stop responding and come back."""

import logging

import pytest

from quorumd.node.peers.contacts import PeerContacts
from quorumd.node.readiness import SilentPeer
from tests.support.text import shows


def test_silence_and_return_of_a_peer_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    contacts = PeerContacts()
    contacts.responded(2, 500.0)
    contacts.failed(2, "a:1: connection refused", 1000.0)
    contacts.failed(2, "a:1: no response in time", 3000.0)
    assert contacts.silent((1, 2, 3), 4000.0) == (SilentPeer(2, 3000.0, "a:1: no response in time"),)
    assert contacts.silent((1, 3), 4000.0) == ()
    contacts.responded(2, 13_000.0)
    contacts.responded(2, 14_000.0)
    assert contacts.silent((2,), 14_000.0) == ()
    silent, returned = caplog.messages
    assert shows(silent, "node 2", "a:1: connection refused")
    assert shows(returned, "node 2", "again", "12 s")
