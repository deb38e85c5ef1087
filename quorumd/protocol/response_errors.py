"""The error codes in a response, at every level, and responses with nothing but an error."""

from __future__ import annotations

from typing import Final

from quorumd.errors import ErrorCode, MessageTooLarge
from quorumd.protocol.apis import response_class
from quorumd.protocol.wire import Message, MessageStruct

Error = tuple[int, str | None]
"""An error code other than 0, and its message."""


def errors_in(response: MessageStruct) -> list[Error]:
    """Return every error in a response or in one of its items, outermost first."""
    fields = _FIELDS.get(type(response))
    if fields is None:
        fields = _FIELDS[type(response)] = _error_fields(type(response))
    code_name, lists = fields
    errors: list[Error] = []
    if code_name and getattr(response, code_name):
        errors.append(_error(response, code_name))
    for name, item_code_name, has_lists in lists:
        for item in getattr(response, name) or ():
            if has_lists:
                errors += errors_in(item)
            # The controller checks every item of every response; nearly all have no error, and save a call.
            elif getattr(item, item_code_name):
                errors.append(_error(item, item_code_name))
    return errors


def top_level_error(api_key: int, error: ErrorCode, text: str | None = None) -> Message:
    """Return an otherwise empty response with the error, and with the text if the response has a field for it.

    The responses of some APIs have errors only in their items; such a response is returned without an error.
    """
    response = response_class(api_key)()
    for name, value in (("error_code", int(error)), ("error_message", text)):
        if value is not None and hasattr(response, name):
            setattr(response, name, value)
    return response


def refusal(api_key: int, too_large: MessageTooLarge) -> Message:
    """Build the response that refuses a whole request. Raises `too_large` if the API has no error for that."""
    response = top_level_error(api_key, ErrorCode.INVALID_REQUEST, str(too_large))
    if not errors_in(response):
        raise too_large
    return response


def _error(struct: MessageStruct, code_name: str) -> Error:
    return getattr(struct, code_name), getattr(struct, "error_message", None)


_Fields = tuple[str, tuple[tuple[str, str, bool], ...]]
"""The name of the error code of a class, "" if it has none, and its lists of items that may have errors: (name of the
list, name of the item's error code, whether items have such lists too)."""

_FIELDS: Final[dict[type[MessageStruct], _Fields]] = {}
"""By class; filled when the first response of a class is checked."""


def _error_fields(struct: type[MessageStruct]) -> _Fields:
    own, lists = "", []
    for name, inner in struct.FIELDS.items():
        if name in ("error_code", "partition_error_code"):
            own = own or name
        elif inner is not None:
            code_name, inner_lists = _error_fields(inner)
            if code_name or inner_lists:
                lists.append((name, code_name, bool(inner_lists)))
    return own, tuple(lists)
