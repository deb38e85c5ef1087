"""The quotas that the administrator of access sets, some of which its clients exceed."""

from __future__ import annotations

from random import Random

from quorumd.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from quorumd.quotas.entities import MUTATION_RATE
from quorumd.simulator.workload.access_requests import QUOTAS, AccessRequests


def test_only_rates_of_mutations_are_small() -> None:
    requests = AccessRequests(Random(1))
    drawn = [requests.change([], 0.0)[0] for _ in range(400)]
    quotas = [
        op
        for each in drawn
        if isinstance(each, AlterClientQuotasRequest)
        for entry in each.entries
        for op in entry.ops
    ]
    assert {op.key for op in quotas} == {key for key, _ in QUOTAS}
    assert all((op.value < 1.0) == (op.key == MUTATION_RATE) for op in quotas)
    assert len({op.value for op in quotas}) == len(quotas)
