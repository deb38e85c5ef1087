"""Why the controller rejects a request or one item of it."""

from __future__ import annotations

from quorumd.errors import ErrorCode


class RequestError(Exception):
    """The error of a request, or of one topic, partition, resource or feature in it: code and message."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def invalid_config(message: str) -> RequestError:
    """The error of a config whose name or value is invalid."""
    return RequestError(ErrorCode.INVALID_CONFIG, message)
