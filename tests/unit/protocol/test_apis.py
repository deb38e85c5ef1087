"""The API registry agrees with the schemas and Kafka's protocol guide."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quorumd.errors import UnsupportedVersion
from quorumd.protocol import apis, messages
from quorumd.protocol.apis import APIS, BROKER_APIS, Api, ApiKey


def test_every_api_has_its_request_and_response_class() -> None:
    for key, entry in APIS.items():
        for found, kind in ((apis.request_class(key), "Request"), (apis.response_class(key), "Response")):
            assert entry.name + kind == found.NAME
            assert key == found.API_KEY
            assert (entry.min_version, entry.max_version) == (found.MIN_VERSION, found.MAX_VERSION)
            assert entry.flexible_from == found.FLEXIBLE_FROM
            assert (
                list(found.ENCODE)
                == list(found.DECODE)
                == list(range(entry.min_version, entry.max_version + 1))
            )


def test_every_metadata_record_has_its_class() -> None:
    assert sorted(messages.RECORDS) == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]
    for key in messages.RECORDS:
        record = apis.record_class(key)
        assert key == record.API_KEY
        assert record.FLEXIBLE_FROM == record.MIN_VERSION == 0


def test_keys_have_names() -> None:
    assert [ApiKey(key).value for key in APIS] == list(APIS)
    assert APIS[ApiKey.VOTE] == Api(52, "Vote", 0, 2, 0, forwardable=False, private=False)
    assert APIS[ApiKey.FETCH] == Api(1, "Fetch", 4, 18, 12, forwardable=False, private=False)


def test_broker_apis_are_known_and_public() -> None:
    assert len(BROKER_APIS) == 28
    assert all(not APIS[key].private and not APIS[key].forwardable for key in BROKER_APIS)


def test_private_apis_are_those_that_kafka_never_shipped() -> None:
    assert [entry.name for entry in APIS.values() if entry.private] == [
        "FetchQuorumRecords",
        "DiscoverBrokers",
        "AlterQuorum",
        "DescribeNode",
    ]


def test_forwardable_apis_are_those_that_kafka_brokers_forward_and_alter_quorum() -> None:
    assert {entry.name for entry in APIS.values() if entry.forwardable} == {
        "CreateTopics",
        "DeleteTopics",
        "AlterConfigs",
        "CreatePartitions",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "DescribeQuorum",
        "UpdateFeatures",
        "UnregisterBroker",
        "UnregisterController",
        "AddRaftVoter",
        "RemoveRaftVoter",
        "AlterQuorum",
        "CreateAcls",
        "DeleteAcls",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
    }


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.VOTE, 0, 2, 1),
        (ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, 0),
        (ApiKey.BEGIN_QUORUM_EPOCH, 1, 2, 1),
        (ApiKey.METADATA, 8, 1, 0),
        (ApiKey.METADATA, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.DISCOVER_BROKERS, 0, 2, 1),
    ],
)
def test_header_versions(key: int, version: int, request_header: int, response_header: int) -> None:
    assert apis.request_header_version(key, version) == request_header
    assert apis.response_header_version(key, version) == response_header


def test_unknown_keys_are_refused() -> None:
    for lookup in (apis.api, apis.request_class, apis.response_class, apis.record_class):
        with pytest.raises(UnsupportedVersion, match=r"unknown .* 4711"):
            lookup(4711)


def test_messages_are_imported_lazily() -> None:
    """Memory and start-up time of the daemon: the registry alone knows every API."""
    program = (
        "import sys; from quorumd.protocol import apis, codec; apis.request_header_version(52, 2);"
        "apis.request_class(52);"
        "print([name for name in sys.modules if name.startswith('quorumd.protocol.messages.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['quorumd.protocol.messages.vote_request']\n"


def test_supported_versions_are_those_of_the_schema() -> None:
    entry = APIS[ApiKey.METADATA]
    supported = [version for version in range(-1, 100) if entry.supports(version)]
    assert supported == list(range(entry.min_version, entry.max_version + 1))
