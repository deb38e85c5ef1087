"""Settings that contradict each other, and valid ones that are probably unintended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from os.path import abspath
from typing import TYPE_CHECKING

from quorumd.broker.settings.broker_settings import ALL_DIRECTORIES
from quorumd.config.setting import Problem
from quorumd.config.values import PLAINTEXT, WILDCARD_HOSTS, WITHOUT_TLS
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from quorumd.config.settings import Settings


def is_loopback(host: str) -> bool:
    """Whether only processes on the same machine reach a listener with this host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def problems(settings: Settings) -> Iterator[Problem]:
    """Yield the contradictions between settings. Later checks rely on the earlier ones."""
    yield from _directory_problems(settings)
    roles = list(_role_problems(settings))
    yield from roles
    if roles:
        return
    yield from _listener_problems(settings)
    yield from _metrics_listener_problems(settings)
    yield from _quorum_problems(settings)
    if settings.connections_max_idle_ms <= settings.fetch_timeout_ms:
        yield Problem(
            ("connections_max_idle_ms", "fetch_timeout_ms"),
            "connections would be closed while followers wait for records",
            f"more than quorum.fetch.timeout.ms ({settings.fetch_timeout_ms})",
        )


def _directory_problems(settings: Settings) -> Iterator[Problem]:
    directories = settings.log_directories
    if not directories and (settings.is_broker or not settings.metadata_directory):
        yield Problem(
            ("log_directories", "process_roles"),
            "is missing",
            "one or more directories for the data of this node",
        )
    if len(directories) > 1 and not settings.is_broker:
        yield Problem(
            ("log_directories", "process_roles"),
            f"{len(directories)} directories; the metadata log needs exactly one",
            "one directory, or process.roles with the broker role",
        )
    if settings.is_broker:
        yield from _cordon_problems(settings.cordoned_log_directories, directories)


def _cordon_problems(cordoned: Sequence[str], directories: Sequence[str]) -> Iterator[Problem]:
    known = set(map(abspath, directories))
    unknown = [each for each in cordoned if each != ALL_DIRECTORIES and abspath(each) not in known]
    if unknown:
        yield Problem(
            ("cordoned_log_directories", "log_directories"),
            f"{unknown[0]} is not in log.dirs",
            "directories of log.dirs, or *",
        )
    if ALL_DIRECTORIES in cordoned and len(cordoned) > 1:
        yield Problem(
            ("cordoned_log_directories",),
            "* already includes every directory",
            "* alone, or directories of log.dirs",
        )


def _role_problems(settings: Settings) -> Iterator[Problem]:
    """Check that each role has a listener."""
    names = [listener.name for listener in settings.listeners]
    controllers = settings.controller_listener_names
    fields = ("listeners", "process_roles", "controller_listener_names")
    if not settings.is_broker:
        return
    if not controllers:
        yield Problem(
            ("controller_listener_names", "process_roles"),
            "is required with the broker role",
            "the name of the controllers' listener, such as CONTROLLER",
        )
        return
    own = [name for name in names if name in controllers]
    if settings.is_controller and (not own or len(own) == len(names)):
        yield Problem(
            fields,
            "a node with both roles needs at least one listener for clients and one for the quorum",
            f"PLAINTEXT://host:port,{controllers[0]}://host:port",
        )
    elif not settings.is_controller and own:
        yield Problem(
            fields,
            f"controller.listener.names has {own[0]}, but this node is not a controller",
            "a listener with another name, or process.roles=broker,controller",
        )


def _listener_problems(settings: Settings) -> Iterator[Problem]:
    names = [listener.name for listener in settings.listeners]
    for listener in settings.listeners:
        if settings.advertised(listener).host in WILDCARD_HOSTS:
            yield Problem(
                ("listeners", "advertised_listeners"),
                "other nodes cannot connect to a wildcard address",
                f"a specific address, or add advertised.listeners={listener.name}://<host>:{listener.port}",
            )
    for advertised in settings.advertised_listeners:
        if advertised.name not in names:
            yield Problem(
                ("advertised_listeners", "listeners"),
                f"no listener is named {advertised.name}",
                f"{names[0]}://host:port",
            )
    yield from _early_listener_problems(settings, names)
    is_complete = True
    for name in dict.fromkeys((*names, settings.controller_listener_name)):
        if not settings.protocol_of(name):
            is_complete = False
            yield Problem(
                ("listeners", "listener_security_protocol_map"),
                f"{name} has no security protocol",
                f"a listener named {PLAINTEXT}, or listener.security.protocol.map={name}:{PLAINTEXT}",
            )
    yield from _listener_name_problems(settings)
    if is_complete:
        yield from _security_problems(settings)


def _early_listener_problems(settings: Settings, names: list[str]) -> Iterator[Problem]:
    """Check that the quorum can elect a leader before the ACLs are loaded, since they are in its log."""
    early = settings.early_start_listeners
    unknown = [each for each in early if each not in (*names, *settings.controller_listener_names)]
    field = ("early_start_listeners", "listeners")
    if unknown:
        yield Problem(field, f"no listener is named {unknown[0]}", " or ".join(names))
    elif early and settings.is_controller and settings.controller_listener_name not in early:
        wrong = "the ACLs are in the log of the quorum, whose listener would wait for them"
        yield Problem(field, wrong, f"a list with {settings.controller_listener_name}, or empty")


def _listener_name_problems(settings: Settings) -> Iterator[Problem]:
    clients = [each.name for each in settings.client_listeners]
    all_names = [each.name for each in settings.listeners]
    for field, names in (
        ("controller_listener_names", all_names if settings.is_controller else []),
        ("inter_broker_listener_name", clients or all_names),
    ):
        wanted = getattr(settings, field)
        if wanted and names and wanted[0] not in names:
            yield Problem((field, "listeners"), f"no listener is named {wanted[0]}", " or ".join(names))


def _security_problems(settings: Settings) -> Iterator[Problem]:
    try:
        settings.security()
    except ConfigError as error:
        what, _, remedy = str(error).partition(": ")
        yield Problem(("listener_security_protocol_map", "listeners"), what, remedy or what)


def _metrics_listener_problems(settings: Settings) -> Iterator[Problem]:
    """Check that no two listeners bind the same address."""
    bound: list[tuple[str, int]] = []
    metrics = settings.metrics_listener
    endpoints = [(listener.host, listener.port) for listener in settings.listeners]
    for host, port in [*endpoints, *((metrics,) if metrics is not None else ())]:
        for other_host, other_port in bound:
            hosts = {host, other_host}
            if port == other_port != 0 and (len(hosts) == 1 or hosts.intersection(WILDCARD_HOSTS)):
                field = "metrics_listener" if (host, port) == metrics else "listeners"
                wrong = (
                    "a listener uses the same port" if field == "metrics_listener" else "uses a port twice"
                )
                yield Problem((field, "listeners"), wrong, "another port")
        bound.append((host, port))


def _quorum_problems(settings: Settings) -> Iterator[Problem]:
    voters, servers = settings.quorum_voters, settings.bootstrap_servers
    unreachable = [str(voter.id) for voter in voters if not voter.port and voter.id != settings.node_id]
    if unreachable and not servers:
        yield Problem(
            ("quorum_voters", "bootstrap_servers", "node_id"),
            f"the address of voter {', '.join(unreachable)} is unknown",
            "id@host:port for each voter, or bootstrap.servers=host:port of any node",
        )
    if settings.is_broker and not settings.is_controller:
        if settings.node_id in (voter.id for voter in voters):
            yield Problem(
                ("quorum_voters", "node_id", "process_roles"),
                f"contains node {settings.node_id}, which is not a controller",
                "the ids of controllers, or process.roles=broker,controller",
            )
        if settings.auto_join:
            yield Problem(
                ("auto_join", "process_roles"),
                "a broker without the controller role cannot be a voter",
                "false",
            )
    if settings.auto_join and voters:
        yield Problem(
            ("auto_join", "quorum_voters"),
            "cannot be combined with quorum.voters",
            "bootstrap.servers instead of quorum.voters, or false",
        )


def suspicions(settings: Settings) -> Iterator[str]:
    """Yield warnings about settings that are probably unintended."""
    if settings.fetch_timeout_ms < settings.election_timeout_ms:
        yield (
            f"quorum.fetch.timeout.ms ({settings.fetch_timeout_ms}) is shorter than "
            f"quorum.election.timeout.ms ({settings.election_timeout_ms}): "
            "a slow election can outlast the fetch timeout of the voters"
        )
    if settings.retry_backoff_ms > settings.retry_backoff_max_ms:
        yield (
            f"quorum.retry.backoff.ms ({settings.retry_backoff_ms}) is above quorum.retry.backoff.max.ms "
            f"({settings.retry_backoff_max_ms}): every retry waits for the maximum"
        )
    if settings.append_linger_ms:
        yield "controller.quorum.append.linger.ms has no effect: writes are batched only while a flush is in progress"
    if settings.authorizer_class and not settings.super_users and len(settings.quorum_voters) > 1:
        yield (
            "authorizer.class.name is set without super.users: nodes serve only super users until the ACLs are "
            "loaded, so that new nodes cannot form a quorum; add the principals of the nodes"
        )
    if settings.clock_offset_ms or settings.fail_flush_after:
        yield "faults are injected into this node: remove the properties that begin with internal."


def exposure(settings: Settings) -> str | None:
    """Return a warning about listeners without TLS that other machines can reach, None if there are none."""
    exposed = [
        f"{each.name}://{each.host}:{each.port}"
        for each in settings.listeners
        if settings.protocol_of(each.name) in WITHOUT_TLS and not is_loopback(each.host)
    ]
    if not exposed:
        return None
    return (
        f"{', '.join(exposed)} has no TLS: others on the network can read the traffic, and without an authorizer "
        "every client can change everything; use SSL or SASL_SSL, or a network for nodes and administrators only"
    )
