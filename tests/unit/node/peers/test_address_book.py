from __future__ import annotations

import pytest

from quorumd.node.peers.address_book import MAX_NODES, Address, AddressBook


def test_hole_26_only_a_strictly_larger_boot_timestamp_replaces_an_address() -> None:
    book = AddressBook()
    assert book.learn(1, Address("a", 1, 5))
    assert not book.learn(1, Address("b", 2, 5))
    assert not book.learn(1, Address("b", 2, 4))
    assert book.get(1) == Address("a", 1, 5)
    assert book.learn(1, Address("b", 2, 6))
    assert book.get(1) == Address("b", 2, 6)


def test_hole_1_node_0_is_a_node_and_negative_ids_are_admin_clients() -> None:
    book = AddressBook()
    assert book.learn(0, Address("a", 1))
    assert not book.learn(-1, Address("a", 1))
    assert book.node_ids() == [0]


@pytest.mark.parametrize("host", ["", "two words", "a\x00b", "a\nb", "ä", "a" * 256])
def test_invalid_host_is_rejected(host: str) -> None:
    assert not AddressBook().learn(1, Address(host, 9092))


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_invalid_port_is_rejected(port: int) -> None:
    assert not AddressBook().learn(1, Address("a", port))


@pytest.mark.parametrize("host", ["node-1.example", "10.0.0.1", "::1", "a" * 255])
def test_valid_hosts_are_accepted(host: str) -> None:
    assert AddressBook().learn(1, Address(host, 65535))


def test_number_of_nodes_is_bounded() -> None:
    book = AddressBook()
    for node_id in range(MAX_NODES + 10):
        book.learn(node_id, Address("a", 1, 1))
    assert len(book.node_ids()) == MAX_NODES
    assert book.learn(MAX_NODES + 20, Address("a", 1, 1), is_voter=True), "voters always have room"
    assert book.learn(7, Address("b", 2, 2)), "addresses of known nodes are still updated"


def test_restarted_node_counts_as_reachable() -> None:
    book = AddressBook()
    book.learn(1, Address("a", 1, 5))
    book.mark_reachable(1, False)
    book.learn(1, Address("a", 1, 6))
    assert book.is_reachable(1)


def test_new_address_counts_as_reachable() -> None:
    book = AddressBook()
    book.learn(1, Address("a", 1, 1))
    book.mark_reachable(1, False)
    assert not book.is_reachable(1)
    book.learn(1, Address("b", 1, 2))
    assert book.is_reachable(1)


def test_repeated_address_does_not_count_as_reachable() -> None:
    """A voter record repeats the address of a node that may still be down."""
    book = AddressBook()
    book.learn(1, Address("a", 1))
    book.mark_reachable(1, False)
    assert book.learn(1, Address("a", 1, recorded_at=9))
    assert not book.is_reachable(1)
    assert book.learn(1, Address("b", 1, recorded_at=10))
    assert book.is_reachable(1)


def test_forgotten_node_counts_as_reachable_when_it_announces_itself_again() -> None:
    book = AddressBook()
    book.learn(1, Address("a", 1, 5))
    book.mark_reachable(1, False)
    book.forget(1)
    assert book.node_ids() == []
    assert book.is_reachable(1)
