"""The errors that quorumd raises, as one tree.

    QuorumdError
      MalformedMessage      input bytes that are not a valid message, batch or frame
        MessageTooLarge     a message whose elements would take too much memory
      AuthenticationFailed  one side of a connection could not be authenticated
      UnsupportedVersion    an unknown version of a message, or one that cannot carry the value of a field
      ConfigError           an invalid properties file or option
      StorageError          the data directory cannot be used
        CorruptLog          files that must not be repaired silently; the node does not run on them
        CorruptSnapshot     a damaged snapshot, which can be replaced
        UnknownRecord       a record of a later version, which this version cannot apply
        DiskFull            no free space: nothing was written, acknowledged data is intact
        FlushFailed         a flush failed: it is unknown what is durable, so the node must stop immediately
        DirectoryInUse      another process has locked the data directory
      RequestError          a node rejects a request or a part of it, with the error code of its response
      RequestFailed         a client received an error response or none
      JobFailed             a job of the data pipeline failed
      InputIncomplete       files that the data pipeline needs are missing or damaged

Every message names the thing, the cause and the remedy.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every command and of the daemon; each has one meaning. `QuorumdError.exit_code` is that of an
    error."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA_DIRECTORY = 3
    FLUSH_FAILED = 4
    ADDRESS_UNAVAILABLE = 5
    INVARIANT_VIOLATED = 6
    JOB_FAILED = 7
    INPUT_INCOMPLETE = 8
    CONTROLLER_TIMEOUT = 9
    INTERRUPTED = 130
    TERMINATED = 143

    @property
    def meaning(self) -> str:
        """The description shown by `quorumd --help`."""
        return _EXIT_MEANINGS[self]


_EXIT_MEANINGS = {
    ExitCode.DONE: "success, or the daemon stopped on request",
    ExitCode.FAILED: "failure: an error, no response, or a check that found damage or other findings",
    ExitCode.USAGE: "invalid command line or configuration",
    ExitCode.DATA_DIRECTORY: "unusable log directory: not formatted, formatted for another node, corrupt or locked",
    ExitCode.FLUSH_FAILED: "a flush to disk failed and the daemon stopped immediately",
    ExitCode.ADDRESS_UNAVAILABLE: "an address cannot be bound, for example because it is already in use",
    ExitCode.INVARIANT_VIOLATED: "the daemon detected an invariant violation and stopped; its files are unchanged",
    ExitCode.JOB_FAILED: "a pipeline job failed, or Spark cannot run because Java or a package is missing",
    ExitCode.INPUT_INCOMPLETE: "incomplete pipeline input: missing, damaged or unreachable",
    ExitCode.CONTROLLER_TIMEOUT: "the controllers did not register the broker, or no longer responded to it, in time",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "a pipeline command was terminated by SIGTERM",
}


class QuorumdError(Exception):
    """Base of all errors that quorumd raises on purpose."""

    exit_code = ExitCode.FAILED
    """The exit code of a process that this error ends."""


class MalformedMessage(QuorumdError):
    """Input bytes that are not a valid message. If a connection received them, only that one is closed."""


class MessageTooLarge(MalformedMessage):
    """A message whose elements would take too much memory. It is not decoded; later messages can be."""


class AuthenticationFailed(QuorumdError):
    """One side of a connection could not be authenticated. The text may be sent to the other side."""


class UnsupportedVersion(QuorumdError):
    """A field is set that this version of the message cannot carry, or the version is unknown."""


class ConfigError(QuorumdError):
    """An invalid properties file or option; the text names file, line, key and the allowed values."""

    exit_code = ExitCode.USAGE


class StorageError(QuorumdError):
    """The data directory cannot be used."""

    exit_code = ExitCode.DATA_DIRECTORY


class CorruptLog(StorageError):
    """A file of the data directory is damaged such that repairing it could lose acknowledged data."""


class CorruptSnapshot(StorageError):
    """A damaged snapshot. Only the snapshot is lost: it is fetched or built again."""


class UnknownRecord(StorageError):
    """A log or snapshot contains a record of an unknown type or version. Nothing was written."""


class DiskFull(StorageError):
    """The disk is full. No part of the rejected write is in the log."""


class FlushFailed(StorageError):
    """A flush failed. It is never retried: after a failed fsync the kernel may have dropped the pages."""

    exit_code = ExitCode.FLUSH_FAILED


class DirectoryInUse(StorageError):
    """Another process has locked the data directory."""


class RequestError(QuorumdError):
    """A request, or a topic, partition, batch or config in it, is rejected with this code and message."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def invalid_config(message: str) -> RequestError:
    """Return the error for a config whose name or value is invalid."""
    return RequestError(ErrorCode.INVALID_CONFIG, message)


class RequestFailed(QuorumdError):
    """A client's request got an error response or none. `error_code`: that of the response, 0 without one."""

    def __init__(self, message: str, error_code: int = 0) -> None:
        super().__init__(message)
        self.error_code = error_code


class JobFailed(QuorumdError):
    """A job of the data pipeline failed; the text is one line with the cause, and names the log with the details."""

    exit_code = ExitCode.JOB_FAILED


class InputIncomplete(QuorumdError):
    """Input of the data pipeline is missing or damaged; the text names file, position and offset."""

    exit_code = ExitCode.INPUT_INCOMPLETE


class ErrorCode(IntEnum):
    """Kafka's error codes, as far as quorumd sends or handles them; `ErrorCode.describe` names any number.

    NOT_FOLLOWER is that of the KIP-595 draft, to which Kafka never assigned a number. Only responses of private APIs
    have it.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    CONTROLLER_ID_NOT_REGISTERED = 136
    NOT_FOLLOWER = 1001

    @classmethod
    def describe(cls, code: int) -> str:
        """Return `NAME (number)`, or `error number` for an unknown one."""
        try:
            return f"{cls(code).name} ({code})"
        except ValueError:
            return f"error {code}"
