"""The TLS and SASL settings of each listener, from the properties of a node or a client."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from quorumd.config.jaas import JaasConfig, parse_jaas
from quorumd.config.security_fields import SecurityFields
from quorumd.errors import ConfigError
from quorumd.security.sasl.jwt_validator import JwtRules
from quorumd.security.sasl.oauth_bearer import OAUTHBEARER
from quorumd.security.sasl.plain import PLAIN
from quorumd.security.tls import PROTOCOLS, KeyStore, TlsSettings, TrustStore

PROTOCOL_NUMBERS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's numbers of the security protocols, as in broker registrations."""
_MODULES: Final = {PLAIN: "Plain", OAUTHBEARER: "OAuthBearer"}


class ListenerProperty(NamedTuple):
    """A property of one listener, and of one SASL mechanism unless `mechanism` is ""."""

    listener: str
    mechanism: str
    field: str
    value: Any


class JwksSource(NamedTuple):
    """The URL of an identity provider's keys, and the rules for its tokens."""

    url: str
    refresh_ms: int
    rules: JwtRules


class SaslServerSettings(NamedTuple):
    """The SASL mechanisms that a listener offers, and their settings."""

    mechanisms: tuple[str, ...]
    users: dict[str, str]
    """Passwords by name, for PLAIN."""
    jwks: JwksSource | None
    """For OAUTHBEARER."""
    max_reauth_ms: dict[str, int]
    """By mechanism, without those that have no limit (KIP-368)."""
    max_token_bytes: int
    """Maximum size of a request before the client has authenticated."""


class SaslLogin(NamedTuple):
    """The login of a client; `token_url` is for OAUTHBEARER."""

    mechanism: str
    jaas: JaasConfig
    token_url: str


class ListenerSecurity(NamedTuple):
    """The security of one listener name: `sasl` of the node that accepts, `login` of the nodes that connect to it."""

    protocol: str
    tls: TlsSettings | None = None
    sasl: SaslServerSettings | None = None
    login: SaslLogin | None = None


class ListenerProperties:
    """The properties that apply to one listener: its own, and for the others those of all listeners."""

    def __init__(self, listener: str, common: SecurityFields, own: tuple[ListenerProperty, ...]) -> None:
        self._listener = listener
        self._common = common
        self._own = [each for each in own if each.listener == listener]

    def get(self, field: str, mechanism: str = "") -> Any:
        """The value for the mechanism if it is set, else for the listener, else for all listeners."""
        for wanted in dict.fromkeys((mechanism, "")):
            for each in self._own:
                if (each.mechanism, each.field) == (wanted, field):
                    return each.value
        return getattr(self._common, field)

    def security(self, protocol: str, login_mechanism: str, accepts: bool) -> ListenerSecurity:
        """The security of the listener. `accepts`: whether this node has the listener or only connects to it.

        Raises ConfigError.
        """
        tls = self._tls(protocol, accepts) if protocol in ("SSL", "SASL_SSL") else None
        if not protocol.startswith("SASL"):
            return ListenerSecurity(protocol, tls)
        return ListenerSecurity(
            protocol,
            tls,
            self._sasl_server() if accepts else None,
            self.login(login_mechanism) if login_mechanism else None,
        )

    def _tls(self, protocol: str, accepts: bool) -> TlsSettings:
        get = self.get
        client_auth = get("ssl_client_auth")
        if protocol == "SASL_SSL":
            own = [each.value for each in self._own if each.field == "ssl_client_auth"]
            client_auth = own[0] if own else "none"
        enabled = [name for name in get("ssl_enabled_protocols") if name in PROTOCOLS]
        if get("ssl_protocol") == "TLSv1.2":
            enabled = [name for name in enabled if name == "TLSv1.2"]
        keys = KeyStore(
            get("ssl_keystore_location"),
            get("ssl_keystore_password"),
            get("ssl_key_password"),
            get("ssl_keystore_certificate_chain"),
            get("ssl_keystore_key"),
        )
        if accepts and not keys.is_given:
            raise ConfigError(
                f"listener {self._listener} uses {protocol} and has no certificate: set ssl.keystore.location, or "
                "ssl.keystore.certificate.chain and ssl.keystore.key"
            )
        if not enabled:
            raise ConfigError(
                f"listener {self._listener} accepts no TLS version: set ssl.protocol and ssl.enabled.protocols"
            )
        return TlsSettings(
            keys,
            TrustStore(
                get("ssl_truststore_location"),
                get("ssl_truststore_password"),
                get("ssl_truststore_certificates"),
            ),
            client_auth,
            tuple(enabled),
            get("ssl_cipher_suites"),
            get("ssl_endpoint_identification_algorithm") == "https",
            get("ssl_principal_mapping_rules"),
        )

    def _sasl_server(self) -> SaslServerSettings:
        mechanisms = self.get("sasl_enabled_mechanisms")
        if not mechanisms:
            raise ConfigError(f"listener {self._listener} uses SASL: set sasl.enabled.mechanisms")
        users: dict[str, str] = {}
        if PLAIN in mechanisms:
            jaas = self._jaas(PLAIN)
            users = jaas.users if jaas is not None else {}
            if not users:
                raise ConfigError(
                    f"{self._jaas_key(PLAIN)} has no users for PLAIN: set user_<name>=<password> in it"
                )
        reauth = {name: self.get("connections_max_reauth_ms", name) for name in mechanisms}
        return SaslServerSettings(
            mechanisms,
            users,
            self._jwks() if OAUTHBEARER in mechanisms else None,
            {name: limit for name, limit in reauth.items() if limit},
            self.get("sasl_max_token_bytes"),
        )

    def _jwks(self) -> JwksSource:
        get = self.get
        url = get("sasl_oauthbearer_jwks_endpoint_url")
        audience, issuer = get("sasl_oauthbearer_expected_audience"), get("sasl_oauthbearer_expected_issuer")
        if not (url and audience and issuer):
            raise ConfigError(
                f"listener {self._listener} uses OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url, "
                "sasl.oauthbearer.expected.audience and sasl.oauthbearer.expected.issuer"
            )
        rules = JwtRules(
            audience, issuer, get("sasl_oauthbearer_sub_claim_name"), get("sasl_oauthbearer_clock_skew_s")
        )
        return JwksSource(url, get("sasl_oauthbearer_jwks_refresh_ms"), rules)

    def login(self, mechanism: str) -> SaslLogin:
        """The login with a mechanism. Raises ConfigError."""
        jaas = self._jaas(mechanism)
        url = self.get("sasl_oauthbearer_token_endpoint_url")
        if jaas is None:
            raise ConfigError(f"{self._jaas_key(mechanism)} is missing: set it to the login for {mechanism}")
        if mechanism == OAUTHBEARER:
            if not url:
                raise ConfigError(
                    "sasl.oauthbearer.token.endpoint.url is missing: set it to the URL that issues tokens"
                )
        elif not (jaas.options.get("username") and jaas.options.get("password")):
            raise ConfigError(f"{self._jaas_key(mechanism)} lacks a login: set username and password in it")
        return SaslLogin(mechanism, jaas, url)

    def _jaas(self, mechanism: str) -> JaasConfig | None:
        text = self.get("sasl_jaas_config", mechanism)
        if not text:
            return None
        found = parse_jaas(text)
        expected = _MODULES.get(mechanism, "Scram")
        if found.module != expected:
            raise ConfigError(
                f"{self._jaas_key(mechanism)} has another module: {mechanism} needs {expected}LoginModule"
            )
        return found

    def _jaas_key(self, mechanism: str) -> str:
        if not self._listener:
            return "sasl.jaas.config"
        return f"listener.name.{self._listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
