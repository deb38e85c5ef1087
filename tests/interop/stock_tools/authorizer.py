"""Compare quorumd's authorizer with Kafka's StandardAuthorizer for random ACLs and requests.

Both decide about a named resource and about any resource of its type. The hosts of ACLs are addresses, since no
release of Kafka supports ranges of hosts.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from random import Random

from quorumd.security.authorizer import Authorizer, AuthorizerSettings, Client
from tests.interop.stock_tools.claims import ClaimBroken, Step
from tests.interop.stock_tools.tools import HERE, QUICK, StockTools
from tests.support.security.index import index_of
from tests.support.security.simple_authorizer import Cluster, Question, random_cluster, random_question

SOURCE = HERE / "AuthorizerDriver.java"
QUESTIONS = 50
"""Number of requests per set of ACLs."""
TIMEOUT_S = 900.0
Case = tuple[Cluster, list[Question]]


class StockAuthorizer:
    """The claim that both authorizers make the same decisions for `count` requests."""

    def __init__(self, tools: StockTools, count: int, seed: int = 29) -> None:
        self._tools = tools
        self._count = count
        self._seed = seed

    def steps(self) -> list[Step]:
        return [("StandardAuthorizer and quorumd decide alike", self._compare)]

    def _compare(self) -> str:
        cases = list(self._cases())
        ours = "".join(_decisions(case) for case in cases)
        theirs = self._run_driver([line for case in cases for line in _lines(case)])
        requests = [(cluster, question) for cluster, questions in cases for question in questions]
        if len(theirs) != len(ours) or len(ours) != 2 * len(requests):
            raise ClaimBroken(f"{len(theirs)} decisions of Kafka, {len(ours)} of quorumd")
        different = [number for number in range(len(ours)) if ours[number] != theirs[number]]
        if different:
            cluster, question = requests[different[0] // 2]
            raise ClaimBroken(
                f"{len(different)} decisions differ; the first is for {question} with {cluster}"
            )
        allowed = ours[::2].count("1")
        return f"{len(requests)} requests to {len(cases)} sets of ACLs, {allowed} allowed, no difference"

    def _cases(self) -> Iterator[Case]:
        random = Random(self._seed)
        for _ in range(-(-self._count // QUESTIONS)):
            cluster = random_cluster(random, with_ranges=False)
            yield cluster, [random_question(random, cluster) for _ in range(QUESTIONS)]

    def _run_driver(self, lines: list[str]) -> str:
        command = [self._tools.java, *QUICK, "-Xmx256m", "-cp", f"{self._tools.brokers}/*", str(SOURCE)]
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ClaimBroken(f"the driver ended with {done.returncode}: {done.stderr.decode()}")
        return done.stdout.decode()


def _decisions(case: Case) -> str:
    cluster, questions = case
    index = index_of(cluster.acls)
    settings = AuthorizerSettings(cluster.super_users, cluster.allows_without_acl)
    authorizer = Authorizer(settings, lambda: index, lambda: True, lambda: 0.0)
    decided = []
    for each in questions:
        client = Client(each.principal, each.host, "Test")
        decided.append(authorizer.authorize(client, each.operation, each.kind, each.name, False, False))
        decided.append(authorizer.authorize_any(client, each.operation, each.kind))
    return "".join("1" if is_allowed else "0" for is_allowed in decided)


def _lines(case: Case) -> Iterator[str]:
    cluster, questions = case
    yield _line("C", str(cluster.allows_without_acl).lower(), ";".join(cluster.super_users))
    for acl in cluster.acls:
        yield _line(
            *("A", acl.resource_type, acl.pattern_type, acl.name),
            *(acl.principal, acl.host, acl.operation, acl.permission),
        )
    for each in questions:
        yield _line("Q", each.principal, each.host, each.operation, each.kind, each.name)


def _line(*fields: object) -> str:
    return "\t".join(map(str, fields))
