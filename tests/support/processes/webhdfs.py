"""Serves a local directory as WebHDFS, a file system that Spark reaches only through Hadoop.

Responses have no Content-Type, since Hadoop parses it with a class that PySpark's package of Hadoop lacks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


class _Handler(BaseHTTPRequestHandler):
    root: Path

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        name = unquote(url.path).removeprefix("/webhdfs/v1").lstrip("/")
        path, operation = self.root / name, query["op"].upper()
        if not path.exists():
            missing = {"exception": "FileNotFoundException", "javaClassName": "java.io.FileNotFoundException"}
            self._reply(404, {"RemoteException": missing | {"message": f"/{name} does not exist"}})
        elif operation == "GETFILESTATUS":
            self._reply(200, {"FileStatus": _status(path, "")})
        elif operation == "LISTSTATUS":
            found = [_status(each, each.name) for each in sorted(path.iterdir())]
            self._reply(200, {"FileStatuses": {"FileStatus": found}})
        elif operation == "OPEN" and "datanode" not in query:
            self.send_response(307)
            self.send_header("Location", f"http://{self.headers['Host']}{self.path}&datanode=1")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif operation == "OPEN":
            data = path.read_bytes()[int(query.get("offset", 0)) :]
            self._send(200, data[: int(query.get("length", len(data)))])
        else:
            self._reply(400, {"RemoteException": {"exception": "Unsupported", "message": operation}})

    def _reply(self, code: int, document: object) -> None:
        self._send(code, json.dumps(document).encode())

    def _send(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _status(path: Path, suffix: str) -> dict[str, object]:
    found = path.stat()
    return {
        "accessTime": 0,
        "blockSize": 1 << 20,
        "fileId": found.st_ino,
        "group": "g",
        "length": found.st_size if path.is_file() else 0,
        "modificationTime": int(found.st_mtime * 1000),
        "owner": "o",
        "pathSuffix": suffix,
        "permission": "644",
        "replication": 1,
        "type": "FILE" if path.is_file() else "DIRECTORY",
    }


@contextmanager
def webhdfs(root: Path) -> Iterator[str]:
    """Serve a directory while the block runs; yield its URL."""
    handler = type("Handler", (_Handler,), {"root": root})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"webhdfs://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
