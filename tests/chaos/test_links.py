"""Each state of a direction has its effect on connections, in that direction only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.links import FRONT, Links, State, Way
from tests.support.processes.daemons import PATIENCE_S, wait_for
from tests.support.processes.ports import free_port

TO, BACK = Way("1", "2"), Way("2", "1")
GRACE_S = 0.3
"""Time to wait for data that must not arrive."""
NEVER_S = 3600.0


class Echo:
    """Node 2: echoes and records the bytes it receives."""

    def __init__(self) -> None:
        self.got = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1000):
                    self.got += data
                    connection.sendall(data)
            except OSError:
                return


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def front() -> int:
    return free_port()


@pytest.fixture
def links(echo: Echo, front: int) -> Iterator[Links]:
    links = Links()
    links.open_front("2", front, echo.port)
    yield links
    links.stop()


@contextmanager
def connected(port: int, who: bytes = b"quorumd-1") -> Iterator[socket.socket]:
    """Open a connection and send a client id, by default of node 1."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(introduced(who))
        yield connection


def introduced(who: bytes = b"quorumd-1") -> bytes:
    """Return the start of a first request, with the client id."""
    return FRONT.pack(10 + len(who), 18, 0, 1, len(who)) + who


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


def exchange(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return receive(connection, len(data))


def nothing_comes(connection: socket.socket) -> bool:
    connection.settimeout(GRACE_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE_S)
    return False


@contextmanager
def talking(port: int) -> Iterator[socket.socket]:
    """Open a connection and complete one echo."""
    with connected(port) as connection:
        receive(connection, len(introduced()))
        assert exchange(connection, b"hello") == b"hello"
        yield connection


def test_data_and_the_close_pass_through(links: Links, front: int, echo: Echo) -> None:
    with talking(front) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert echo.got.endswith(b"hello")
    assert links.parties() == {"1", "2"}


def test_slow_direction_delays_data(links: Links, front: int, echo: Echo) -> None:
    with talking(front) as connection:
        links.hurt([TO], State.SLOW, 0.05)
        assert exchange(connection, b"late") == b"late"
        links.hurt([TO], State.SLOW, NEVER_S)
        links.heal()
        assert exchange(connection, b"at once") == b"at once"
        links.hurt([TO], State.SLOW, NEVER_S)
        connection.sendall(b"too late")
        assert nothing_comes(connection)
        assert echo.got.endswith(b"at once")


@pytest.mark.parametrize(("way", "arrives"), [(TO, False), (BACK, True)])
def test_stalled_direction_delivers_data_when_it_heals(
    links: Links, front: int, echo: Echo, way: Way, arrives: bool
) -> None:
    with talking(front) as connection:
        links.hurt([way], State.STALLED)
        connection.sendall(b"late")
        assert nothing_comes(connection)
        assert echo.got.endswith(b"late") == arrives
        links.heal()
        assert receive(connection, 4) == b"late"


@pytest.mark.parametrize(("way", "arrives"), [(TO, False), (BACK, True)])
def test_deaf_direction_drops_data_and_resets_its_connections_when_it_heals(
    links: Links, front: int, echo: Echo, way: Way, arrives: bool
) -> None:
    with talking(front) as connection:
        links.hurt([way], State.DEAF)
        connection.sendall(b"lost")
        assert nothing_comes(connection)
        assert echo.got.endswith(b"lost") == arrives
        links.heal()
        assert ended(connection)
    with talking(front):
        pass


def test_connection_without_lost_data_survives_a_deaf_direction(links: Links, front: int) -> None:
    with talking(front) as connection:
        links.hurt([TO], State.DEAF)
        links.heal()
        assert exchange(connection, b"still") == b"still"


def test_cut_link_resets_and_refuses_connections_until_it_heals(links: Links, front: int) -> None:
    with talking(front) as connection:
        links.hurt([TO, BACK], State.CUT)
        assert ended(connection)
    with connected(front) as connection:
        assert ended(connection)
    links.heal()
    with talking(front):
        pass


def test_held_data_of_a_reset_connection_is_dropped(links: Links, front: int) -> None:
    complaints: list[object] = []
    links._loop.set_exception_handler(lambda _, context: complaints.append(context))
    with talking(front) as connection:
        links.hurt([TO], State.STALLED)
        connection.sendall(b"too late")
        wait_for("the piece to wait", lambda: bool(links._directions[TO].passing._waiters))
        links.hurt([BACK], State.CUT)
        assert ended(connection)
        links.heal()
        wait_for("the connection to be over", lambda: not links._tasks)
    assert complaints == []


def test_other_links_are_not_affected(links: Links, front: int) -> None:
    links.hurt([TO, BACK], State.CUT)
    with connected(front, b"client-7") as connection:
        assert receive(connection, len(introduced(b"client-7"))) == introduced(b"client-7")
    assert links.parties() == {"1", "2", "client-7"}


def test_closed_proxy_refuses_connections_until_it_opens(links: Links, front: int, echo: Echo) -> None:
    links.close_front("2")

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", front), timeout=PATIENCE_S).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_for("the front to be closed", refused)
    links.open_front("2", front, echo.port)
    with talking(front):
        pass


def test_connection_is_closed_without_a_node_behind_the_proxy(links: Links) -> None:
    front = free_port()
    links.open_front("3", front, free_port())
    with connected(front) as connection:
        assert ended(connection)


def ended(connection: socket.socket) -> bool:
    """Return True if the connection is closed or reset without data."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
