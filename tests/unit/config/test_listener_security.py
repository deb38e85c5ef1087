"""TLS and SASL of listeners, as properties files give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.config import Settings, load
from quorumd.config.client import load_client
from quorumd.config.contradictions import exposure
from quorumd.config.security import JwksSource
from quorumd.errors import ConfigError
from quorumd.quotas.connection_rates import NO_RATE_LIMIT
from quorumd.security.sasl.jwt_validator import JwtRules
from quorumd.security.tls import KeyStore, TlsSettings, TrustStore

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE = "node.id=1\nlog.dirs=data\nquorum.voters=1\n"
TWO = (
    "listeners=CONTROLLER://127.0.0.1:9093,SECOND://127.0.0.1:9094\n"
    "listener.security.protocol.map=CONTROLLER:SSL,SECOND:SASL_SSL\n"
    "ssl.keystore.location=/all.pem\nssl.client.auth=required\n"
    "sasl.enabled.mechanisms=SCRAM-SHA-512\n"
)
ONE = "listeners=SSL://127.0.0.1:9093\n"
SASL = "listeners=CONTROLLER://127.0.0.1:9093\nlistener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT\n"
LOGIN = "sasl.mechanism.controller.protocol=PLAIN\nsasl.enabled.mechanisms=PLAIN\n"
JAAS = "listener.name.controller.plain.sasl.jaas.config="


def settings(tmp_path: Path, lines: str) -> Settings:
    path = tmp_path / "node.properties"
    path.write_text(NODE + lines)
    return load(str(path))


def refusal(tmp_path: Path, lines: str) -> str:
    with pytest.raises(ConfigError) as refused:
        settings(tmp_path, lines)
    return str(refused.value)


def test_properties_of_a_listener_take_precedence_over_those_of_all(tmp_path: Path) -> None:
    own = "listener.name.second.ssl.keystore.location=/second.pem\nlistener.name.SECOND.ssl.client.auth=requested\n"
    found = settings(tmp_path, TWO + own).security()
    first, second = found["CONTROLLER"], found["SECOND"]
    assert (first.protocol, second.protocol) == ("SSL", "SASL_SSL")
    assert first.tls is not None
    assert second.tls is not None
    assert (first.tls.key_store.location, first.tls.client_auth) == ("/all.pem", "required")
    assert (second.tls.key_store.location, second.tls.client_auth) == ("/second.pem", "requested")
    assert first.sasl is None
    assert second.sasl is not None
    assert second.sasl.mechanisms == ("SCRAM-SHA-512",)


def test_client_auth_of_all_listeners_is_not_that_of_sasl(tmp_path: Path) -> None:
    second = settings(tmp_path, TWO).security()["SECOND"]
    assert second.tls is not None
    assert second.tls.client_auth == "none"


def test_every_property_of_a_listener_reaches_its_tls(tmp_path: Path) -> None:
    lines = (
        "listeners=SSL://127.0.0.1:9093\nssl.keystore.location=/all.p12\n"
        "listener.name.ssl.ssl.keystore.location=/a.p12\nlistener.name.ssl.ssl.keystore.password=one\n"
        "listener.name.ssl.ssl.key.password=two\nlistener.name.ssl.ssl.truststore.location=/b.p12\n"
        "listener.name.ssl.ssl.truststore.password=three\nlistener.name.ssl.ssl.client.auth=requested\n"
        "listener.name.ssl.ssl.enabled.protocols=TLSv1.3\n"
        "listener.name.ssl.ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"
        "listener.name.ssl.ssl.endpoint.identification.algorithm=\n"
        "listener.name.ssl.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/L\n"
    )
    assert settings(tmp_path, lines).security()["SSL"].tls == TlsSettings(
        KeyStore("/a.p12", "one", "two"),
        TrustStore("/b.p12", "three"),
        "requested",
        ("TLSv1.3",),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
        verifies_host=False,
        principal_rules="RULE:^CN=(.*)$/$1/L",
    )


@pytest.mark.parametrize(
    ("lines", "protocols"),
    [
        ("", ("TLSv1.2", "TLSv1.3")),
        ("ssl.enabled.protocols=TLSv1.2\n", ("TLSv1.2",)),
        ("ssl.protocol=TLSv1.2\n", ("TLSv1.2",)),
        ("ssl.protocol=TLS\n", ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_versions_of_tls_are_those_that_both_properties_allow(
    tmp_path: Path, lines: str, protocols: tuple[str, ...]
) -> None:
    tls = settings(tmp_path, f"{ONE}ssl.keystore.location=/a.pem\n{lines}").security()["SSL"].tls
    assert tls is not None
    assert tls.protocols == protocols


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("", "ssl.keystore.location"),
        (
            "ssl.keystore.location=/a.pem\nssl.protocol=TLSv1.2\nssl.enabled.protocols=TLSv1.3\n",
            "ssl.enabled.protocols",
        ),
    ],
)
def test_unusable_tls_is_refused(tmp_path: Path, lines: str, fact: str) -> None:
    with pytest.raises(ConfigError, match=fact):
        settings(tmp_path, ONE + lines).security()


def test_pem_text_is_kept_with_its_lines(tmp_path: Path) -> None:
    pem = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----"
    key = "-----BEGIN PRIVATE KEY-----\\nhunter2\\n-----END PRIVATE KEY-----"
    lines = (
        "listeners=SSL://127.0.0.1:9093\n"
        f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={pem}\nssl.keystore.key={key}\n"
        f"ssl.truststore.certificates={pem}\n"
    )
    tls = settings(tmp_path, lines).security()["SSL"].tls
    assert tls is not None
    text = pem.replace("\\n", "\n")
    assert tls.key_store == KeyStore(certificate_chain=text, key=key.replace("\\n", "\n"))
    assert tls.trust_store == TrustStore(certificates=text)
    assert "hunter2" not in repr(tls)


def test_jaas_config_has_users_and_the_login_of_the_node(tmp_path: Path) -> None:
    jaas = (
        f'{PLAIN_MODULE} required username="node-1" password="a \\\\"quoted\\\\" one" \\\n'
        '    user_node-1=unquoted user_bob.b@c="x;y";\n'
    )
    found = settings(tmp_path, f"{SASL}{LOGIN}{JAAS}{jaas}").security()["CONTROLLER"]
    assert found.sasl is not None
    assert found.sasl.users == {"node-1": "unquoted", "bob.b@c": "x;y"}
    assert found.login is not None
    assert found.login.mechanism == "PLAIN"
    assert found.login.jaas.options["password"] == 'a "quoted" one'


@pytest.mark.parametrize(
    ("jaas", "facts"),
    [
        (f'{PLAIN_MODULE} required username="a" password="b";', ("user_<name>",)),
        (f'{PLAIN_MODULE} required user_a="hunter2";', ("username", "password")),
        (f'{SCRAM_MODULE} required username="a" password="hunter2" user_a="b";', ("PlainLoginModule",)),
        (f'{PLAIN_MODULE} username="a" password="hunter2";', ("required",)),
        (f'{PLAIN_MODULE} required username="a" password="hunter2;', ('name="value"',)),
        ("com.example.LoginModule required;", ("login module",)),
        ("org.apache.kafka.common.security.kerberos.KerberosLoginModule required;", ("Kerberos",)),
    ],
)
def test_wrong_jaas_configs_are_refused(tmp_path: Path, jaas: str, facts: tuple[str, ...]) -> None:
    text = refusal(tmp_path, f"{SASL}{LOGIN}{JAAS}{jaas}\n")
    for fact in (JAAS.removesuffix("="), *facts):
        assert fact in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        (SASL, "sasl.mechanism.controller.protocol"),
        (SASL + "sasl.mechanism.controller.protocol=PLAIN\n", "sasl.enabled.mechanisms"),
        (SASL + LOGIN, JAAS.removesuffix("=")),
        (SASL + LOGIN.replace("PLAIN", "GSSAPI"), "GSSAPI"),
    ],
)
def test_incomplete_sasl_is_refused(tmp_path: Path, lines: str, fact: str) -> None:
    assert fact in refusal(tmp_path, lines)


def test_properties_of_a_mechanism_take_precedence_over_those_of_its_listener(tmp_path: Path) -> None:
    lines = (
        f"{SASL}sasl.mechanism.controller.protocol=SCRAM-SHA-512\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512\n"
        "connections.max.reauth.ms=1h\nlistener.name.controller.connections.max.reauth.ms=2h\n"
        "listener.name.controller.scram-sha-512.connections.max.reauth.ms=3h\n"
        f'listener.name.controller.sasl.jaas.config={SCRAM_MODULE} required username="all" password="b";\n'
        "listener.name.controller.scram-sha-512.sasl.jaas.config="
        f'{SCRAM_MODULE} required username="own" password="b";\n'
    )
    found = settings(tmp_path, lines).security()["CONTROLLER"]
    assert found.login is not None
    assert found.login.jaas.options["username"] == "own"
    assert found.sasl is not None
    assert found.sasl.max_reauth_ms == {"SCRAM-SHA-256": 7_200_000, "SCRAM-SHA-512": 10_800_000}


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH = {
    "sasl.oauthbearer.jwks.endpoint.url": "https://idp/keys",
    "sasl.oauthbearer.expected.audience": "kafka,quorumd",
    "sasl.oauthbearer.expected.issuer": "https://idp",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
}


def oauth_lines(without: str = "") -> str:
    login = f'{OAUTH_MODULE} required clientId="node-1" clientSecret="s";'
    given = "".join(f"{key}={value}\n" for key, value in OAUTH.items() if key != without)
    return (
        f"{SASL}sasl.mechanism.controller.protocol=OAUTHBEARER\nsasl.enabled.mechanisms=OAUTHBEARER\n"
        f"listener.name.controller.oauthbearer.sasl.jaas.config={login}\n{given}"
    )


def test_tokens_are_checked_by_keys_audience_and_issuer(tmp_path: Path) -> None:
    found = settings(tmp_path, oauth_lines() + "sasl.oauthbearer.sub.claim.name=azp\n").security()[
        "CONTROLLER"
    ]
    assert found.sasl is not None
    rules = JwtRules(("kafka", "quorumd"), "https://idp", "azp", 30)
    assert found.sasl.jwks == JwksSource("https://idp/keys", 3_600_000, rules)
    assert found.login is not None
    assert found.login.token_url == "https://idp/token"


@pytest.mark.parametrize("missing", list(OAUTH))
def test_incomplete_oauthbearer_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        settings(tmp_path, oauth_lines(without=missing)).security()


@pytest.mark.parametrize(
    ("lines", "exposed"),
    [
        ("listeners=PLAINTEXT://127.0.0.1:1", ()),
        ("listeners=PLAINTEXT://localhost:1", ()),
        ("listeners=PLAINTEXT://10.0.0.1:1", ("PLAINTEXT://10.0.0.1:1",)),
        ("listeners=PLAINTEXT://:1\nadvertised.listeners=PLAINTEXT://a:1", ("PLAINTEXT://:1",)),
        (
            "listeners=CONTROLLER://10.0.0.1:1\nlistener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT\n"
            "sasl.mechanism.controller.protocol=SCRAM-SHA-512\nsasl.enabled.mechanisms=SCRAM-SHA-512\n"
            f'{JAAS.replace("plain", "scram-sha-512")}{SCRAM_MODULE} required username="a" password="b";',
            ("CONTROLLER://10.0.0.1:1",),
        ),
        ("listeners=SSL://10.0.0.1:1\nssl.keystore.location=/a.pem", ()),
    ],
)
def test_listeners_without_tls_that_others_reach_are_named(
    tmp_path: Path, lines: str, exposed: tuple[str, ...]
) -> None:
    warning = exposure(settings(tmp_path, lines + "\n"))
    assert (warning is not None) == bool(exposed)
    for each in exposed:
        assert each in str(warning)


def client(tmp_path: Path, lines: str) -> str:
    path = tmp_path / "client.properties"
    path.write_text(lines)
    return str(path)


def test_client_properties_have_tls_and_login(tmp_path: Path) -> None:
    jaas = f'sasl.jaas.config={SCRAM_MODULE} required username="a" password="b" tokenauth="true";\n'
    lines = (
        f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n{jaas}ssl.truststore.location=/ca.pem\n"
    )
    tls, login = load_client(client(tmp_path, lines + "retries=5\n"), {})
    assert tls is not None
    assert tls.trust_store.location == "/ca.pem"
    assert login == ("SCRAM-SHA-256", {"username": "a", "password": "b", "tokenauth": "true"}, "")
    assert load_client(client(tmp_path, "retries=5\n"), {}) == (None, None)


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ("security.protocol=TLS\n", "security.protocol"),
        ("security.protocol=SASL_SSL\n", "sasl.mechanism"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "sasl.jaas.config"),
        ("ssl.client.auth=perhaps\n", "ssl.client.auth"),
        ("ssl.keystore.location=${file:/absent:x}\n", "ssl.keystore.location"),
    ],
)
def test_wrong_client_properties_are_refused(tmp_path: Path, lines: str, key: str) -> None:
    path = client(tmp_path, lines)
    with pytest.raises(ConfigError) as refused:
        load_client(path, {})
    assert str(refused.value).startswith(f"{path}:")
    assert key in str(refused.value)
    with pytest.raises(ConfigError):
        load_client(str(tmp_path / "absent"), {})


def test_rates_of_connections_are_those_of_node_and_listener(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092\nprocess.roles=broker,controller\n"
        "controller.listener.names=CONTROLLER\nmax.connection.creation.rate=20\n"
        "listener.name.plaintext.max.connection.creation.rate=5\nquota.window.num=3\n",
    ).connection_rates()
    assert (found.node, dict(found.listeners), found.windows) == (20, {"PLAINTEXT": 5}, 3)
    assert found.protected == {"CONTROLLER", "PLAINTEXT"}, "nodes and brokers use these"


def test_rate_of_the_node_delays_its_only_listener(tmp_path: Path) -> None:
    found = settings(tmp_path, "listeners=PLAINTEXT://127.0.0.1:9092\n").connection_rates()
    assert (found.node, found.protected) == (NO_RATE_LIMIT, frozenset())
