"""The list of all attacks, with their preparations and checks."""

from __future__ import annotations

import time

from tests.attacks.attack import Attack
from tests.attacks.field import Field
from tests.attacks.strikes import (
    access,
    coordinators,
    elections,
    handshakes,
    large_arrays,
    resources,
    security,
    tls,
)
from tests.support.processes.requests import nodes_known


def stop_followers(field: Field) -> None:
    """Stop every node except the leader, which does not know at first that it has no followers."""
    leader = field.cluster.leader()
    for daemon in field.cluster.others(leader):
        daemon.kill()


def acknowledged_alone(field: Field) -> list[str]:
    """Return harm if writes were acknowledged although a single node had them."""
    commits = field.probe.report().commits
    return [f"{commits} writes were acknowledged by one of three nodes"] if commits > 1 else []


def strangers_in_metadata(field: Field) -> list[str]:
    """Return harm if unverified addresses appear in Metadata."""
    harm = []
    for daemon in field.cluster:
        with daemon.connect() as wire:
            strangers = (
                nodes_known(wire) - set(field.cluster.daemons) - {each.broker_id for each in field.stand_ins}
            )
        if strangers:
            harm.append(f"node {daemon.node_id} lists {len(strangers)} strangers")
    return harm


def redirected(field: Field) -> list[str]:
    """Return harm if strangers appear in Metadata or, after the leader is stopped, no other leader is elected."""
    harm = strangers_in_metadata(field)
    leader = field.cluster.leader()
    leader.kill()
    try:
        field.cluster.leader(besides=leader.node_id, seconds=20)
    except AssertionError:
        harm.append("no leader was elected afterwards")
    field.cluster.heal()
    return harm


def stop_leader_soon(field: Field) -> None:
    """Stop the leader, so that the other nodes elect one while the attack runs."""
    field.cluster.leader().kill()
    time.sleep(0.1)


ATTACKS = (
    Attack("none", resources.greet),
    Attack("newer epochs", elections.poison_epochs),
    Attack("forged progress", elections.forge_progress, 4.0, stop_followers, acknowledged_alone, True),
    Attack("pipelined Metadata", resources.pipeline_metadata),
    Attack("Metadata for 100 clients", resources.metadata_for_many),
    Attack("Metadata for closed connections", resources.metadata_for_closed_connections),
    Attack("lists of short elements", resources.create_unnamed_topics),
    Attack("many names", large_arrays.describe_many_topics),
    Attack("pages for 100 clients", large_arrays.describe_pages_for_many),
    Attack("invalid cursors", large_arrays.describe_invalid_cursors),
    Attack("names without rights", large_arrays.request_metadata_without_rights),
    Attack("topics at followers", large_arrays.create_topics_at_followers),
    Attack("forged addresses", elections.forge_addresses, verify=redirected, deposes=True),
    Attack("forged leader", elections.forge_leader, before=stop_leader_soon, deposes=True),
    Attack("descriptors", resources.exhaust_descriptors),
    Attack("HTTP connections", resources.exhaust_http),
    Attack("unfinished frames", resources.leave_frames_unfinished),
    Attack("responses not read", resources.read_nothing),
    Attack("new observers", elections.flood_with_observers),
    Attack("flood of requests", resources.flood_with_requests),
    Attack("malformed frames", resources.send_bad_frames),
    Attack("mutated requests", resources.send_fuzzed),
    Attack("mutated TLS records", security.send_fuzzed_tls),
    Attack("unfinished TLS handshakes", security.stall_tls_handshakes),
    Attack("unfinished authentication", security.authenticate_without_end),
    Attack("long names before login", security.send_long_names_before_login),
    Attack("forged tokens", security.send_forged_tokens),
    Attack("mutated SASL messages", security.send_fuzzed_sasl),
    Attack("mutated requests about ACLs", security.send_fuzzed_acls),
    Attack("changes of TLS keys", tls.update_keys),
    Attack("small TLS records", tls.send_small_records),
    Attack("slow TLS groups", tls.choose_slow_groups),
    Attack("huge certificates", handshakes.present_huge_certificates),
    Attack("half-open TLS handshakes", handshakes.leave_handshakes_half_open),
    Attack("long TLS handshakes", handshakes.send_long_handshakes),
    Attack("renegotiations", handshakes.renegotiate),
    Attack("unread changes of TLS keys", handshakes.request_key_updates),
    *(Attack(name, strike) for name, strike in access.BY_ADMINISTRATOR.items()),
    Attack("changes without rights", access.without_rights),
)
BROKER_ATTACKS = tuple(
    Attack(name, strike, before=Field.measure_base)
    for name, strike in (
        ("new groups", coordinators.join_new_groups),
        ("members of one group", coordinators.join_one_group),
        ("large members", coordinators.join_with_large_metadata),
        ("offsets of new groups", coordinators.commit_offsets_of_new_groups),
        ("coordinators of new groups", coordinators.find_new_coordinators),
        ("new transactional ids", coordinators.use_new_transactional_ids),
        ("producer ids", coordinators.get_producer_ids),
        ("regular expressions", coordinators.subscribe_to_regexes),
        ("fetch sessions", coordinators.fetch_missing_partitions),
        ("delegation tokens", coordinators.create_tokens),
    )
)
"""Attacks on a node that is a broker too. Groups, offsets and transactional ids stay until they expire."""
