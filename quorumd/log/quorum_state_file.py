"""`quorum-state`: the persistent election state of a node as one JSON line, replaced atomically.

    {"clusterId":"","brokerId":1,"leaderId":-1,"leaderEpoch":2,"votedId":3,"votedDirectoryId":"<Uuid>",
     "appliedOffset":0,"currentVoters":[{"voterId":1}],"targetVoters":null,"data_version":1}

It has all fields of the KIP-595 draft, with Kafka's keys. Kafka's version 0 (without directory id and target voters)
and version 1 (without cluster id, offset and voters) can be read too. The node does not start with an invalid file:
without its vote it could vote twice in an epoch, and two leaders could be elected. For the same reason it does not
start if there is a log but no such file (`quorumd.node.identity.identity_files`).
"""

from __future__ import annotations

import json
from typing import NamedTuple

from quorumd.errors import CorruptLog
from quorumd.ids import NO_NODE, ZERO_UUID, KafkaUuid
from quorumd.log.atomic_file import read_small_file, reserve_spare, write_atomically
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.ports import Disk

FILE_NAME = "quorum-state"
DATA_VERSION = 1
_READABLE_VERSIONS = (0, 1)
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_MAX_CLUSTER_ID_BYTES = 0x7FFF
"""Maximum length of a string in a message (int16)."""


class Founder(NamedTuple):
    """A replica that may elect the first leader, and its address."""

    voter_id: int
    directory_id: KafkaUuid
    host: str
    port: int


class SavedState(NamedTuple):
    """The content of the file. All fields but epoch, leader and vote reflect committed records only.

    `cluster_id` is "" and `broker_id` NO_NODE if unknown; `voted_directory_id` is ZERO_UUID without a vote.
    `applied_offset`: all control records below it are reflected here. Two fields are quorumd's own. `catching_up`:
    whether the directory may be that of a replaced disk, in which case the node does not vote. `founders`: the
    replicas with which a node without committed voters may bootstrap a quorum; None stands for those of
    `quorum.voters` if all of them are blank, an empty tuple forbids it.
    """

    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: KafkaUuid = ZERO_UUID
    cluster_id: str = ""
    broker_id: int = NO_NODE
    applied_offset: int = 0
    current_voters: tuple[int, ...] = ()
    target_voters: tuple[int, ...] | None = None
    catching_up: bool = False
    founders: tuple[Founder, ...] | None = None


class QuorumStateFile:
    """The `quorum-state` file in the directory of the metadata partition."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"

    def load(self) -> SavedState | None:
        """The saved state, None if there is no file. Raises CorruptLog for an invalid file."""
        data = read_small_file(self._disk, self._path)
        if data is None:
            return None
        try:
            return _parse(data)
        except ValueError as fault:
            raise CorruptLog(
                f"{self._path}: {fault}. The node does not start without the vote in this file; restore the file, "
                f"or, {REFORMAT_REMEDY}"
            ) from None

    def save(self, state: SavedState) -> None:
        """Replace the file durably. Blocks: call it through `Disk.submit`.

        Works on a full disk as long as the blocks that the previous save reserved are enough. Raises DiskFull,
        StorageError or FlushFailed, see `write_atomically`; a vote must then not be granted.
        """
        write_atomically(self._disk, self._path, _encode(state))
        reserve_spare(self._disk, self._path)


def _encode(state: SavedState) -> bytes:
    targets = state.target_voters
    fields: dict[str, object] = {
        "clusterId": state.cluster_id,
        "brokerId": state.broker_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": str(state.voted_directory_id),
        "appliedOffset": state.applied_offset,
        "currentVoters": [{"voterId": voter} for voter in state.current_voters],
        "targetVoters": None if targets is None else [{"voterId": voter} for voter in targets],
    }
    if state.catching_up:
        fields["catchingUp"] = True
    if state.founders is not None:
        fields["founders"] = [
            {"voterId": f.voter_id, "directoryId": str(f.directory_id), "host": f.host, "port": f.port}
            for f in state.founders
        ]
    fields["data_version"] = DATA_VERSION
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _parse(data: bytes) -> SavedState:
    """Parse the first line. Raises ValueError."""
    try:
        fields = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        raise ValueError("the first line is not JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("the first line is not a JSON object")
    if "data_version" not in fields:
        raise ValueError("data_version is missing")
    version = fields["data_version"]
    if version not in _READABLE_VERSIONS or isinstance(version, bool):
        raise ValueError(f"data_version {version!r} is not supported (supported: 0 and 1)")
    return SavedState(
        leader_epoch=_integer(fields, "leaderEpoch", 0, _MAX_INT32),
        leader_id=_integer(fields, "leaderId", NO_NODE, _MAX_INT32),
        voted_id=_integer(fields, "votedId", NO_NODE, _MAX_INT32),
        voted_directory_id=_directory_id(fields, "votedDirectoryId"),
        cluster_id=_cluster_id(fields.get("clusterId")),
        broker_id=_integer(fields, "brokerId", NO_NODE, _MAX_INT32, default=NO_NODE),
        applied_offset=_integer(fields, "appliedOffset", 0, _MAX_INT64, default=0),
        current_voters=_voters(fields, "currentVoters") or (),
        target_voters=_voters(fields, "targetVoters"),
        catching_up=_flag(fields, "catchingUp"),
        founders=_founders(fields.get("founders")),
    )


def _integer(
    fields: dict[str, object], name: str, minimum: int, maximum: int, default: int | None = None
) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValueError(f"{name} is {json.dumps(value)}, expected a number from {minimum} to {maximum}")
    return value


def _flag(fields: dict[str, object], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, expected true or false")
    return value


def _directory_id(fields: dict[str, object], name: str) -> KafkaUuid:
    value = fields.get(name)
    if value is None:
        return ZERO_UUID
    if not isinstance(value, str):
        raise ValueError(f"{name} is {json.dumps(value)}, expected a Uuid")
    try:
        return KafkaUuid.parse(value)
    except ValueError as fault:
        raise ValueError(f"{name}: {fault}") from None


def _founders(value: object) -> tuple[Founder, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"founders is {json.dumps(value)}, expected a list of objects")
    return tuple(
        Founder(
            _integer(entry, "voterId", 0, _MAX_INT32),
            _directory_id(entry, "directoryId"),
            str(entry.get("host", "")),
            _integer(entry, "port", 0, 65535),
        )
        for entry in value
    )


def _cluster_id(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"clusterId is {json.dumps(value)}, expected a string")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        # JSON allows it, and UTF-8 does not.
        raise ValueError(f"clusterId is {json.dumps(value)}, which contains an unpaired surrogate") from None
    if size > _MAX_CLUSTER_ID_BYTES:
        raise ValueError(f"clusterId has more than {_MAX_CLUSTER_ID_BYTES} bytes")
    return value


def _voters(fields: dict[str, object], name: str) -> tuple[int, ...] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f'{name} is {json.dumps(value)}, expected a list of {{"voterId": number}}')
    return tuple(_integer(entry, "voterId", 0, _MAX_INT32) for entry in value)
