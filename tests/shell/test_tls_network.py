"""TLS on the real network: handshakes, principals, the end of a connection, and certificates that change."""

import asyncio
import gc
import logging
import socket
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from quorumd.ports import ANONYMOUS
from quorumd.runtime import tls as tls_module
from quorumd.runtime import tls_records
from quorumd.runtime.network import TcpNetwork
from quorumd.runtime.tls import MAX_REASONS, Handshakes, TlsStream
from quorumd.runtime.tls_listeners import TlsListeners
from quorumd.runtime.tls_records import DecryptionShares, RecordQueue
from quorumd.security.tls import KeyStore, TlsSettings, TrustStore
from tests.shell.test_tcp_network import PATIENCE_S, Echo, Recorder, run
from tests.support.security import renegotiation
from tests.support.security.certificates import Certificates
from tests.support.security.key_updates import connect

RECORD_OVERHEAD = 5 + 1 + 16
"""The header, the kind and the tag of a record of TLS 1.3."""
MANY_UPDATES = 500_000
"""13 MiB: more than the buffers of sockets hold."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
pytestmark = pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


def settings(certificates: Certificates, name: str, client_auth: str = "required") -> TlsSettings:
    path = certificates.directory / f"{name}.pem"
    return TlsSettings(
        KeyStore(str(path), "", "", "", ""),
        TrustStore(str(certificates.trusted), "", ""),
        client_auth,
        ("TLSv1.2", "TLSv1.3"),
        (),
        True,
        "RULE:^CN=([^,]+).*$/$1/",
    )


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    made = Certificates(tmp_path)
    for name in ("server", "client"):
        made.issue(name)
    return made


class Server:
    """A listener that echoes, and the connections that it accepted."""

    def __init__(self, tls: TlsListeners) -> None:
        self.tls = tls
        self.network = TcpNetwork(asyncio.get_running_loop(), tls=tls)
        self.accepted: list[Echo] = []
        self.listener = self.network.listen("127.0.0.1", 0, self._accept, "TLS")
        self.port = self.listener.port

    def _accept(self) -> Echo:
        self.accepted.append(Echo())
        return self.accepted[-1]


@asynccontextmanager
async def serving(tls: TlsSettings) -> AsyncIterator[Server]:
    server = Server(TlsListeners({"TLS": tls}, asyncio.get_running_loop()))
    try:
        yield server
    finally:
        server.listener.close()
        await server.network.close(timeout_s=1)


def client_context(certificates: Certificates, name: str = "client") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates.trusted))
    if name:
        context.load_cert_chain(certificates.directory / f"{name}.pem")
    return context


async def exchange(port: int, context: ssl.SSLContext, data: bytes) -> tuple[bytes, int]:
    """Send data as a client of asyncio does, which ends the connection and waits for the server to do the same.
    Returns the response and the serial number of the server's certificate."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost", ssl_shutdown_timeout=PATIENCE_S
        )
        try:
            writer.write(data)
            received = await reader.readexactly(len(data))
            serial = int(writer.get_extra_info("peercert")["serialNumber"], 16)
        finally:
            writer.close()
            await writer.wait_closed()
    return received, serial


def test_data_is_encrypted_and_the_certificate_names_the_principal(
    loop_factory: LoopFactory, certificates: Certificates
) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            # More than a handshake may have: it arrives while the last step of the handshake is on its thread.
            data = bytes(range(256)) * 4096
            received, _ = await exchange(server.port, client_context(certificates), data)
            assert received == data
            (accepted,) = server.accepted
            await accepted.until(lambda: accepted.ends == [("", False)])
            assert accepted.transport.principal == "User:client"
            assert accepted.data == data

    run(scenario, loop_factory)


def test_small_records_are_decrypted_in_slices(
    loop_factory: LoopFactory, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of one byte takes a microsecond, and the loop reads up to 370,000 of them at once."""
    monkeypatch.setattr(tls_records, "RECORDS_AT_ONCE", 10)

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server, asyncio.timeout(PATIENCE_S):
            context = client_context(certificates)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
            )
            for number in range(1000):
                writer.write(bytes([number % 256]))
            data = bytes(number % 256 for number in range(1000))
            assert await reader.readexactly(1000) == data
            (accepted,) = server.accepted
            assert max(accepted.sizes) <= 10
            accepted.transport.pause_reading()
            accepted.transport.resume_reading()
            writer.write(b"last")
            assert await reader.readexactly(4) == b"last"
            writer.close()
            await accepted.until(lambda: accepted.ends == [("", False)])
            assert accepted.data == data + b"last"

    run(scenario, loop_factory)


def test_key_updates_are_handled_in_slices(
    loop_factory: LoopFactory, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL derives keys for all that it has before it returns any plaintext."""
    monkeypatch.setattr(tls_records, "RECORDS_AT_ONCE", 10)
    taken: list[int] = []
    take = DecryptionShares.take

    def record(shares: DecryptionShares, records: RecordQueue) -> tuple[bytes, bool]:
        found = take(shares, records)
        taken.append(len(found[0]))
        return found

    monkeypatch.setattr(DecryptionShares, "take", record)

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server, asyncio.timeout(PATIENCE_S):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                keys = await asyncio.to_thread(connect, connection, client_context(certificates))
                updates = [keys.update() for _ in range(1000)]
                connection.sendall(b"".join([*updates, keys.record(b"after")]))
                while not server.accepted:
                    await asyncio.sleep(0.001)
                (accepted,) = server.accepted
                await accepted.until(lambda: accepted.data == b"after")
                assert sum(taken) == sum(map(len, updates)) + len(b"after") + RECORD_OVERHEAD
                assert max(taken) <= 10 * max(map(len, updates))

    run(scenario, loop_factory)


def test_slow_group_is_not_used(loop_factory: LoopFactory, certificates: Certificates) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            context = client_context(certificates)
            context.set_ecdh_curve("secp521r1")
            with pytest.raises(ssl.SSLError):
                await exchange(server.port, context, b"hello")
            assert server.accepted == []
            assert server.tls.handshakes.failures == 1

    run(scenario, loop_factory)


def test_client_cannot_renegotiate(loop_factory: LoopFactory, certificates: Certificates) -> None:
    """Another handshake would cost the server much more than the client."""

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server, asyncio.timeout(PATIENCE_S):

            def act() -> list[tuple[int, bytes]]:
                with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
                    client = renegotiation.connect(connection, client_context(certificates))
                    connection.sendall(client.hello() + client.record(b"x"))
                    stream = connection.makefile("rb")
                    found = []
                    for _ in range(2):
                        header = stream.read(5)
                        found.append(client.read(header + stream.read(int.from_bytes(header[3:]))))
                    return found

            assert await asyncio.to_thread(act) == [
                (renegotiation.ALERT, renegotiation.NO_RENEGOTIATION),
                (renegotiation.APPLICATION_DATA, b"x"),
            ]

    run(scenario, loop_factory)


def test_client_that_does_not_read_what_tls_sends_is_disconnected(
    loop_factory: LoopFactory, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """Each KeyUpdate that requests another one makes the server send as many bytes."""

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server, asyncio.timeout(PATIENCE_S):

            def act() -> int:
                sent = 0
                with socket.socket() as connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    connection.settimeout(PATIENCE_S)
                    connection.connect(("127.0.0.1", server.port))
                    keys = connect(connection, client_context(certificates))
                    with suppress(OSError):
                        while sent < MANY_UPDATES:
                            connection.sendall(b"".join(keys.update(True) for _ in range(1000)))
                            sent += 1000
                return sent

            assert await asyncio.to_thread(act) < MANY_UPDATES
            (accepted,) = server.accepted
            await accepted.until(lambda: bool(accepted.ends))
            assert "reads no TLS messages" in accepted.ends[0][0]
            assert "aborting the connection with 127.0.0.1" in caplog.text

    run(scenario, loop_factory)


def test_end_of_a_client_is_acknowledged(loop_factory: LoopFactory, certificates: Certificates) -> None:
    """Clients wait for it, some for half a minute."""

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            stream = client_context(certificates).wrap_bio(incoming, outgoing, server_hostname="localhost")

            async def until_done(step: Callable[[], object]) -> None:
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        try:
                            step()
                            return
                        except ssl.SSLWantReadError:
                            writer.write(outgoing.read())
                            data = await reader.read(65536)
                            assert data, "the connection ended without close_notify"
                            incoming.write(data)

            await until_done(stream.do_handshake)
            await until_done(stream.unwrap)
            writer.close()
            await writer.wait_closed()

    run(scenario, loop_factory)


@pytest.mark.parametrize(
    ("client_auth", "is_served"), [("required", False), ("requested", True), ("none", True)]
)
def test_client_without_certificate(
    loop_factory: LoopFactory, certificates: Certificates, client_auth: str, is_served: bool
) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server", client_auth)) as server:
            context = client_context(certificates, "")
            if is_served:
                assert (await exchange(server.port, context, b"hello"))[0] == b"hello"
                assert server.accepted[0].transport.principal == ANONYMOUS
            else:
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    await exchange(server.port, context, b"hello")
                assert server.accepted == []
                assert server.tls.handshakes.failures == 1

    run(scenario, loop_factory)


def test_certificates_are_replaced_without_restart_and_connections_stay(
    loop_factory: LoopFactory, certificates: Certificates
) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            context = client_context(certificates)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
            )
            _, before = await exchange(server.port, context, b"1")
            certificates.issue("server")
            server.tls.reload()
            _, after = await exchange(server.port, context, b"2")
            assert before != after
            writer.write(b"3")
            assert await reader.readexactly(1) == b"3"
            writer.close()
            await writer.wait_closed()

    run(scenario, loop_factory)


def test_broken_key_file_leaves_the_old_certificate_in_force(
    loop_factory: LoopFactory, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            context = client_context(certificates)
            _, before = await exchange(server.port, context, b"1")
            (certificates.directory / "server.pem").write_text("-----BEGIN CERTIFICATE-----\nno\n")
            with caplog.at_level(logging.ERROR):
                server.tls.reload()
            assert "listener TLS keeps" in caplog.text
            _, after = await exchange(server.port, context, b"2")
            assert before == after

    run(scenario, loop_factory)


@pytest.mark.parametrize(("host", "is_named"), [("127.0.0.1", True), ("other.example", False)])
def test_outgoing_connection_checks_the_host_in_the_certificate(
    loop_factory: LoopFactory, certificates: Certificates, host: str, is_named: bool
) -> None:
    async def scenario() -> None:
        certificates.issue("server", host)
        async with serving(settings(certificates, "server")) as server:
            other = TcpNetwork(
                asyncio.get_running_loop(),
                tls=TlsListeners({"TLS": settings(certificates, "client")}, asyncio.get_running_loop()),
            )
            client = Recorder()
            other.connect("127.0.0.1", server.port, client, "TLS")
            if is_named:
                await client.until(lambda: client.calls == ["connected"])
                client.transport.write(b"hello")
                await client.until(lambda: client.data == b"hello")
            else:
                await client.until(lambda: client.calls == ["closed"])
                assert "TLS handshake failed" in client.ends[0][0]
            await other.close(timeout_s=1)

    run(scenario, loop_factory)


def test_plain_bytes_end_their_connection_only(
    loop_factory: LoopFactory, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"\0\0\0\x10" + bytes(16))
            async with asyncio.timeout(PATIENCE_S):
                await reader.read()
            writer.close()
            assert server.tls.handshakes.failures == 1
            assert "does not use TLS" in caplog.text
            assert (await exchange(server.port, client_context(certificates), b"on"))[0] == b"on"

    run(scenario, loop_factory)


def test_closed_connections_need_no_garbage_collector(
    loop_factory: LoopFactory, certificates: Certificates
) -> None:
    """OpenSSL's memory of a connection is large, and unknown to the collector: a flood of clients took 28 MiB/s."""

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            streams: list[weakref.ref[TlsStream]] = []
            accepted = server.tls.accepted

            def remember(listener: str) -> TlsStream | None:
                stream = accepted(listener)
                assert stream is not None
                streams.append(weakref.ref(stream))
                return stream

            server.tls.accepted = remember  # type: ignore[method-assign]  # to know every stream
            for data in (b"\0\0\0\x10" + bytes(16), b""):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(data)
                writer.close()
                await writer.wait_closed()
            await exchange(server.port, client_context(certificates), b"on")
            (echo,) = server.accepted
            await echo.until(lambda: echo.ends == [("", False)])
            del echo.transport
            async with asyncio.timeout(PATIENCE_S):
                while server.network.open_connections or any(stream() is not None for stream in streams):
                    await asyncio.sleep(0.001)
            assert len(streams) == 3

    gc.disable()
    try:
        run(scenario, loop_factory)
    finally:
        gc.enable()


def test_silent_clients_do_not_keep_others_out(
    loop_factory: LoopFactory, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has been silent longest is replaced."""
    monkeypatch.setattr(tls_module, "MAX_HANDSHAKES", 3)

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server, AsyncExitStack() as opened:
            readers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                opened.callback(writer.close)
                readers.append(reader)
            async with asyncio.timeout(PATIENCE_S):
                while server.tls.handshakes.accepted_in_progress < 3:
                    await asyncio.sleep(0.001)
            assert (await exchange(server.port, client_context(certificates), b"on"))[0] == b"on"
            async with asyncio.timeout(PATIENCE_S):
                assert await readers[0].read() == b""
            assert server.tls.handshakes.accepted_in_progress == 2

    run(scenario, loop_factory)


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def test_handshake_counts_until_the_thread_has_reached_it(
    loop_factory: LoopFactory, certificates: Certificates
) -> None:
    """Those of clients that have gone need memory until then; without the limit they had all of the node's."""

    async def scenario() -> None:
        async with serving(settings(certificates, "server")) as server:
            handshakes = server.tls.handshakes
            goes_on = threading.Event()
            busy = handshakes.run(lambda: wait_for(goes_on))
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"\x16\x03\x01\x02\x00\x01")
                writer.close()
                await writer.wait_closed()
            async with asyncio.timeout(PATIENCE_S):
                while server.network.open_connections or handshakes.accepted_in_progress < 3:
                    await asyncio.sleep(0.001)
                goes_on.set()
                await busy
                while handshakes.accepted_in_progress:
                    await asyncio.sleep(0.001)
            assert (await exchange(server.port, client_context(certificates), b"on"))[0] == b"on"

    run(scenario, loop_factory)


def test_reasons_of_failed_handshakes_do_not_hide_each_other(
    loop_factory: LoopFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """A scanner without TLS hid that the certificate of a node had expired."""
    loop = loop_factory()
    handshakes = Handshakes(loop)
    for _ in range(3):
        for number in range(2 * MAX_REASONS):
            handshakes.log_failure("peer", f"reason {number}")
    loop.close()
    assert len(caplog.records) == MAX_REASONS + 1
    assert handshakes.failures == 6 * MAX_REASONS
