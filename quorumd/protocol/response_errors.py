"""The error codes in a response, at every level."""

from __future__ import annotations

from typing import Final, get_args, get_origin, get_type_hints

from quorumd.protocol.wire import MessageStruct

Error = tuple[int, str | None]
"""An error code other than 0 and the message beside it."""


def errors_in(response: MessageStruct) -> list[Error]:
    """Return every error in the response, outermost first."""
    errors: list[Error] = []
    _collect(response, errors)
    return errors


def _collect(struct: MessageStruct, errors: list[Error]) -> None:
    fields = _FIELDS.get(type(struct))
    if fields is None:
        fields = _FIELDS[type(struct)] = _error_fields(type(struct))
    has_error_code, lists = fields
    if has_error_code:
        code = struct.error_code  # type: ignore[attr-defined]  # the class has it
        if code:
            errors.append((code, getattr(struct, "error_message", None)))
    for name in lists:
        for item in getattr(struct, name) or ():
            _collect(item, errors)


_FIELDS: Final[dict[type[MessageStruct], tuple[bool, tuple[str, ...]]]] = {}
"""By class: whether it has an error code, and the lists whose items may have one. Looked up once for each class,
since the controller counts the errors of every response."""


def _error_fields(struct: type[MessageStruct]) -> tuple[bool, tuple[str, ...]]:
    lists = []
    for name, hint in get_type_hints(struct.__init__).items():
        for option in (hint, *get_args(hint)):
            items = get_args(option)[:1] if get_origin(option) is list else ()
            if items and issubclass(items[0], MessageStruct) and any(_error_fields(items[0])):
                lists.append(name)
    return "error_code" in struct.__slots__, tuple(lists)
