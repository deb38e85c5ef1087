"""Messages as JSON."""

from __future__ import annotations

import json

from quorumd.ids import KafkaUuid
from quorumd.protocol.json_values import HIDDEN, plain
from quorumd.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

ONE = KafkaUuid.parse("J8aAPcfLQt2bqs1JT_rMgQ")


def test_message_has_kafkas_names_and_uuids() -> None:
    record = RegisterBrokerRecord(
        1, incarnation_id=ONE, end_points=[BrokerEndpoint("PLAINTEXT", "host", 9092, 0)], log_dirs=[ONE]
    )
    found = plain(record)
    assert found["brokerId"] == 1
    assert found["incarnationId"] == "J8aAPcfLQt2bqs1JT_rMgQ"
    assert found["logDirs"] == ["J8aAPcfLQt2bqs1JT_rMgQ"]
    assert found["endPoints"] == [{"name": "PLAINTEXT", "host": "host", "port": 9092, "securityProtocol": 0}]
    assert json.loads(json.dumps(found)) == found


def test_secrets_are_hidden_unless_requested() -> None:
    record = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)
    assert plain([record]) == [
        {
            "name": "alice",
            "mechanism": 1,
            "salt": HIDDEN,
            "storedKey": HIDDEN,
            "serverKey": HIDDEN,
            "iterations": 4096,
        }
    ]
    assert plain([record], secrets=True)[0]["storedKey"] == b"stored".hex()


def test_other_values() -> None:
    assert plain((b"\x01\xff", None, True, "text", 1.5)) == ["01ff", None, True, "text", 1.5]
