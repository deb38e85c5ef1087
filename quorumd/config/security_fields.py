"""Settings of TLS and SASL. With the prefix `listener.name.<name>.` a property applies to one listener."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

from quorumd.config.setting import setting
from quorumd.config.values import (
    JAAS,
    MAPPING_RULES,
    MECHANISM,
    MECHANISMS,
    PEM,
    TEXT,
    TEXTS,
    TLS_PROTOCOLS,
    choice,
    duration,
    integer,
    size,
)
from quorumd.security.tls import CLIENT_AUTH, PROTOCOLS

_STORES = choice("JKS", "PKCS12", "PEM")


class SecurityFields(BaseModel):
    """Settings for every listener without a value of its own."""

    ssl_keystore_type: Annotated[str, _STORES] = setting(
        "ssl.keystore.type",
        default="PEM",
        about="Accepted for compatibility, but without effect: the format of a file, PEM or PKCS12, is detected. "
        "Files in JKS are rejected; `keytool -importkeystore` converts them.",
    )
    ssl_keystore_location: Annotated[str, TEXT] = setting(
        "ssl.keystore.location",
        default="",
        about="File with the node's certificate chain and private key, in PEM or PKCS12; read again when it changes.",
    )
    ssl_keystore_password: Annotated[str, TEXT] = setting(
        "ssl.keystore.password", default="", about="Password of ssl.keystore.location if that is PKCS12."
    )
    ssl_key_password: Annotated[str, TEXT] = setting(
        "ssl.key.password", default="", about="Password of an encrypted private key in PEM."
    )
    ssl_keystore_certificate_chain: Annotated[str, PEM] = setting(
        "ssl.keystore.certificate.chain",
        default="",
        about="The node's certificate chain as PEM text instead of a file.",
    )
    ssl_keystore_key: Annotated[str, PEM] = setting(
        "ssl.keystore.key", default="", about="The private key as PEM text instead of a file."
    )
    ssl_truststore_type: Annotated[str, _STORES] = setting(
        "ssl.truststore.type", default="PEM", about="Accepted for compatibility, like ssl.keystore.type."
    )
    ssl_truststore_location: Annotated[str, TEXT] = setting(
        "ssl.truststore.location",
        default="",
        about="File with the trusted certificates, in PEM or PKCS12; by default those of the system.",
    )
    ssl_truststore_password: Annotated[str, TEXT] = setting(
        "ssl.truststore.password", default="", about="Password of ssl.truststore.location if that is PKCS12."
    )
    ssl_truststore_certificates: Annotated[str, PEM] = setting(
        "ssl.truststore.certificates",
        default="",
        about="The trusted certificates as PEM text instead of a file.",
    )
    ssl_client_auth: Annotated[str, choice(*CLIENT_AUTH)] = setting(
        "ssl.client.auth",
        default="none",
        about="Whether clients of SSL listeners need a certificate, which determines their principal. For SASL_SSL "
        "listeners only listener.name.<name>.ssl.client.auth applies.",
    )
    ssl_protocol: Annotated[str, choice("TLS", *PROTOCOLS)] = setting(
        "ssl.protocol", default="TLSv1.3", about="Highest version of TLS; the value TLS means TLSv1.3."
    )
    ssl_enabled_protocols: Annotated[tuple[str, ...], TLS_PROTOCOLS] = setting(
        "ssl.enabled.protocols", default="TLSv1.2,TLSv1.3", about="Accepted versions of TLS."
    )
    ssl_cipher_suites: Annotated[tuple[str, ...], TEXTS] = setting(
        "ssl.cipher.suites",
        default="",
        about="Cipher suites of TLSv1.2, by their names in Java or OpenSSL; empty means the defaults. Those of "
        "TLSv1.3 cannot be configured.",
    )
    ssl_endpoint_identification_algorithm: Annotated[str, choice("https", "")] = setting(
        "ssl.endpoint.identification.algorithm",
        default="https",
        about="https: the certificate of a server must contain the host name to which the client connects. Empty: "
        "the host name is not verified.",
    )
    ssl_principal_mapping_rules: Annotated[str, MAPPING_RULES] = setting(
        "ssl.principal.mapping.rules",
        default="DEFAULT",
        about="Rules that map a certificate's distinguished name to a principal; the first match applies.",
    )

    sasl_enabled_mechanisms: Annotated[tuple[str, ...], MECHANISMS] = setting(
        "sasl.enabled.mechanisms",
        default="",
        about="The mechanisms that SASL listeners offer to clients; required if there is such a listener.",
    )
    sasl_jaas_config: Annotated[str, JAAS] = setting(
        "sasl.jaas.config",
        default="",
        about="Login module and credentials. On a node the key is listener.name.<name>.<mechanism>.sasl.jaas.config: "
        "its own login and, for PLAIN, the users that it accepts. On a client the key is sasl.jaas.config.",
    )
    sasl_max_token_bytes: Annotated[int, size("1KiB", "16MiB")] = setting(
        "sasl.server.max.receive.size",
        default="512KiB",
        about="Maximum size of a request before the client has authenticated.",
    )
    connections_max_reauth_ms: Annotated[int, duration("0ms", "3650d")] = setting(
        "connections.max.reauth.ms",
        default="0",
        about="Time after which a client of a SASL listener must authenticate again (KIP-368); 0 means only when its "
        "credentials expire.",
    )
    sasl_oauthbearer_jwks_endpoint_url: Annotated[str, TEXT] = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        default="",
        about="URL of the identity provider's keys (https:, http: or file:); required with OAUTHBEARER.",
    )
    sasl_oauthbearer_jwks_refresh_ms: Annotated[int, duration("1s", "30d")] = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        default="1h",
        about="Interval at which the keys are read again. A token with an unknown key causes an earlier read.",
    )
    sasl_oauthbearer_expected_audience: Annotated[tuple[str, ...], TEXTS] = setting(
        "sasl.oauthbearer.expected.audience",
        default="",
        about="Accepted audiences of tokens; required with OAUTHBEARER.",
    )
    sasl_oauthbearer_expected_issuer: Annotated[str, TEXT] = setting(
        "sasl.oauthbearer.expected.issuer",
        default="",
        about="The issuer of tokens; required with OAUTHBEARER.",
    )
    sasl_oauthbearer_sub_claim_name: Annotated[str, TEXT] = setting(
        "sasl.oauthbearer.sub.claim.name", default="sub", about="The claim with the name of the principal."
    )
    sasl_oauthbearer_clock_skew_s: Annotated[int, integer(0, 3600)] = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        default="30",
        about="Allowed clock skew when the times of a token are checked.",
    )
    sasl_oauthbearer_token_endpoint_url: Annotated[str, TEXT] = setting(
        "sasl.oauthbearer.token.endpoint.url",
        default="",
        about="URL from which this node or client gets its own token (https:, http: or file:).",
    )


class NodeLogins(BaseModel):
    """The mechanisms with which a node authenticates to other nodes."""

    sasl_mechanism_controller_protocol: Annotated[str, MECHANISM] = setting(
        "sasl.mechanism.controller.protocol",
        default="",
        about="The mechanism that nodes use on the controllers' listener; required if it uses SASL.",
    )
    sasl_mechanism_inter_broker_protocol: Annotated[str, MECHANISM] = setting(
        "sasl.mechanism.inter.broker.protocol",
        default="",
        about="The mechanism that brokers use on the inter-broker listener; required if it uses SASL.",
    )
