"""systemd's notification protocol (sd_notify): one datagram per message to systemd's socket."""

from __future__ import annotations

import os
import socket


def notify(*variables: str) -> bool:
    """Send assignments such as `READY=1` in one message. Returns whether they were sent.

    No effect without a service manager. Errors are ignored.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract name, outside the file system (Linux)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(address)
            sender.sendall("\n".join(variables).encode())
    except OSError:
        return False
    return True


def watchdog_interval_s() -> float | None:
    """The interval for `WATCHDOG=1`, half of systemd's timeout; None if systemd does not watch this process."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 2_000_000 if microseconds.isdigit() and int(microseconds) else None
