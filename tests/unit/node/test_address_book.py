from __future__ import annotations

from quorumd.node.address_book import Address, AddressBook


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


def test_an_address_without_host_or_with_an_impossible_port_is_none() -> None:
    book = AddressBook()
    assert not book.learn(1, Address("", 9092))
    assert not book.learn(1, Address("a", 0))
    assert not book.learn(1, Address("a", 65536))


def test_a_new_address_counts_as_reachable() -> None:
    book = AddressBook()
    book.learn(1, Address("a", 1, 1))
    book.mark_reachable(1, False)
    assert not book.is_reachable(1)
    book.learn(1, Address("b", 1, 2))
    assert book.is_reachable(1)
