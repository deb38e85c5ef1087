"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.scram_credentials import credential
from quorumd.controller.steps import select_sorted
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from quorumd.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from quorumd.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from quorumd.protocol.wire import Message
from quorumd.security.credentials import ScramCredential
from quorumd.security.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS

_BY_TYPE: Final = {mechanism.type: mechanism for mechanism in MECHANISMS}
_Problem = tuple[ErrorCode, str]
_Change = ScramCredentialDeletion | ScramCredentialUpsertion


def plan_alter_user_scram_credentials(
    controller: Controller, message: AlterUserScramCredentialsRequest, version: int
) -> ControllerResult:
    """Set and remove credentials. Each user has its own result; one that occurs twice is rejected."""
    del version
    changes: list[_Change] = [*message.deletions, *message.upsertions]
    count = Counter(change.name for change in changes)
    records: list[Message] = []
    results: dict[str, AlterUserScramCredentialsResult] = {}
    for change in changes:
        if change.name in results:
            continue
        problem = _problem(controller.image, change)
        if count[change.name] > 1:
            problem = ErrorCode.DUPLICATE_RESOURCE, "A user must not occur twice in a request."
        if problem is not None:
            error, text = problem
            results[change.name] = AlterUserScramCredentialsResult(change.name, int(error), text)
            continue
        results[change.name] = AlterUserScramCredentialsResult(change.name)
        records.append(_record(change))
    return ControllerResult(records, AlterUserScramCredentialsResponse(0, list(results.values())))


def _problem(image: ClusterImage, change: _Change) -> _Problem | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "The user name is empty."
    if change.mechanism not in _BY_TYPE:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"SCRAM mechanism {change.mechanism} is unknown."
    if isinstance(change, ScramCredentialUpsertion):
        if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
            text = f"Iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}."
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, text
    elif (change.mechanism, change.name) not in image.security.scram:
        return ErrorCode.RESOURCE_NOT_FOUND, "The user has no credential of this mechanism."
    return None


def _record(change: _Change) -> Message:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(change.name, change.mechanism)
    mechanism = _BY_TYPE[change.mechanism]
    return credential(mechanism, change.name, change.salt, change.salted_password, change.iterations)


def describe_user_scram_credentials(
    image: ClusterImage, message: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """List the mechanisms and iterations of the users, or of all users if the message names none, in two steps per
    credential and one per user."""
    credentials = [(user, mechanism, found) for (mechanism, user), found in image.security.scram.items()]
    return _describe(credentials, message)


def _describe(
    credentials: Sequence[tuple[str, int, ScramCredential]], message: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    infos: dict[str, list[CredentialInfo]] = {}
    for user, mechanism, found in (
        yield from select_sorted(credentials, lambda each: True, lambda each: each[:2])
    ):
        infos.setdefault(user, []).append(CredentialInfo(mechanism, found.iterations))
        yield
    names = Counter(user.name for user in message.users or ())
    results: list[DescribeUserScramCredentialsResult] = []
    for name in names or infos:
        result = DescribeUserScramCredentialsResult(name, 0, None, infos.get(name, []))
        if names[name] > 1:
            result = DescribeUserScramCredentialsResult(
                name, int(ErrorCode.DUPLICATE_RESOURCE), "A user must not occur twice in a request."
            )
        elif name not in infos:
            result.error_code = int(ErrorCode.RESOURCE_NOT_FOUND)
            result.error_message = "The user has no SCRAM credential."
        results.append(result)
        yield
    return DescribeUserScramCredentialsResponse(0, 0, None, results)
