"""Messages as JSON values, to show records and responses to users."""

from __future__ import annotations

from typing import Any, Final

from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.wire import MessageStruct

HIDDEN: Final = "(hidden)"
_SECRETS: Final[dict[type[MessageStruct], frozenset[str]]] = {
    UserScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"}),
}


def plain(value: Any, secrets: bool = False) -> Any:
    """Convert a message or a part of one to values for JSON: with Kafka's field names, UUIDs in Kafka's base64 form,
    bytes in hexadecimal.

    HIDDEN replaces secrets, as in Kafka's tools, unless `secrets` is set.
    """
    if isinstance(value, MessageStruct):
        hidden = frozenset[str]() if secrets else _SECRETS.get(type(value), frozenset())
        return {
            _camel_case(name): HIDDEN if name in hidden else plain(getattr(value, name), secrets)
            for name in value.FIELDS
        }
    if isinstance(value, list | tuple):
        return [plain(item, secrets) for item in value]
    if isinstance(value, KafkaUuid):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def _camel_case(name: str) -> str:
    first, *others = name.replace("kraft", "k_raft").split("_")
    return first + "".join(part.capitalize() for part in others)
