"""Records that quorumd stores as written (`quorumd.controller.opaque_records`), as Kafka's controllers write them.

They have few keys, so that records are replaced and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import client_quota_record as quota
from quorumd.protocol.messages import register_controller_record as controller
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.primitives import write_tag
from quorumd.protocol.wire import Message

NAMES = ("alice", "bob", "")
_PRINCIPALS = frozenset(f"User:{name}" for name in NAMES)
UNKNOWN_TAG = 9
"""Tag of a field that a later version of Kafka may have."""


def draw_kept_record(random: Random, kept: Iterable[bytes]) -> bytes:
    """Draw the frame of a record that is valid while the image has the records `kept`."""
    made = random.choice(_KINDS)(random)
    if isinstance(made, AccessControlEntryRecord) and random.random() < 0.5:
        # Omit the records of the administrator of access.
        found = [
            record
            for record in map(decode_record, kept)
            if isinstance(record, AccessControlEntryRecord) and record.principal in _PRINCIPALS
        ]
        if found:
            made = RemoveAccessControlEntryRecord(random.choice(found).id)
    frame = encode_record(made, made.MAX_VERSION)
    return _with_unknown_tag(random, frame) if random.random() < 0.2 else frame


def _with_unknown_tag(random: Random, frame: bytes) -> bytes:
    """Add a tagged field to a frame, which ends with an empty section of tagged fields."""
    out = bytearray(frame[:-1])
    out.append(1)
    write_tag(out, UNKNOWN_TAG, random.randbytes(random.randrange(4)))
    return bytes(out)


def _name(random: Random) -> str:
    return random.choice(NAMES)


def _acl(random: Random) -> Message:
    # Kafka's controller creates an id for each ACL.
    return AccessControlEntryRecord(
        KafkaUuid(random.randbytes(16)), 2, _name(random), 3, f"User:{_name(random)}", "*", random.randrange(2, 14), 3
    )  # fmt: skip


def _scram(random: Random) -> Message:
    secret = random.randbytes
    return UserScramCredentialRecord(
        _name(random), random.choice((1, 2)), secret(8), secret(16), secret(16), random.randrange(4096, 16384)
    )


def _no_scram(random: Random) -> Message:
    return RemoveUserScramCredentialRecord(_name(random), random.choice((1, 2)))


def _quota(random: Random) -> Message:
    entity = [quota.EntityData("user", random.choice((None, *NAMES)))]
    if random.random() < 0.5:
        entity.append(quota.EntityData("client-id", random.choice((None, *NAMES))))
    random.shuffle(entity)
    key = random.choice(("producer_byte_rate", "request_percentage"))
    return ClientQuotaRecord(entity, key, random.uniform(0.0, 1e9), random.random() < 0.4)


def _token(random: Random) -> Message:
    issued = random.randrange(1 << 40)
    user = f"User:{_name(random)}"
    return DelegationTokenRecord(
        user, user, [user] * random.randrange(3), issued, issued + 2, issued + 1, _name(random)
    )


def _no_token(random: Random) -> Message:
    return RemoveDelegationTokenRecord(_name(random))


def _controller(random: Random) -> Message:
    return RegisterControllerRecord(
        random.randrange(3000, 3003),
        KafkaUuid(random.randbytes(16)),
        random.random() < 0.5,
        [controller.ControllerEndpoint("CONTROLLER", "host", random.randrange(1, 65536), 0)],
        [controller.ControllerFeature("metadata.version", 7, random.randrange(7, 34))],
    )


def _no_controller(random: Random) -> Message:
    return UnregisterControllerRecord(random.randrange(3000, 3003))


def _migration(random: Random) -> Message:
    return ZkMigrationStateRecord(random.randrange(4))


_KINDS: tuple[Callable[[Random], Message], ...] = (
    _acl,
    _scram,
    _no_scram,
    _quota,
    _quota,
    _token,
    _no_token,
    _controller,
    _no_controller,
    _migration,
)
