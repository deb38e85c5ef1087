"""Error codes have Kafka's numbers and names."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KafkaErrorCode

from quorumd.errors import ErrorCode

FIRST_PRIVATE = 1001
OTHERWISE_NAMED = {"INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION"}
SINCE_KAFKA_4_4 = {"CONTROLLER_ID_NOT_REGISTERED": 136}
"""Not in the oracle yet."""


def test_every_public_code_is_kafkas() -> None:
    ours = {
        OTHERWISE_NAMED.get(code.name, code.name): int(code) for code in ErrorCode if code < FIRST_PRIVATE
    }
    kafkas = {code.name.upper(): int(code) for code in KafkaErrorCode}
    assert ours.items() - kafkas.items() == SINCE_KAFKA_4_4.items()


def test_code_is_described_by_name_where_it_has_one() -> None:
    assert ErrorCode.describe(107) == "INELIGIBLE_REPLICA (107)"
    assert ErrorCode.describe(999) == "error 999"
