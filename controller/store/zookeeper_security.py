"""Access control and authentication with ZooKeeper: ACLs, SASL, TLS.

The ACLs are Kafka's: with ``zookeeper.set.acl`` only its creator can change a znode, and everybody
can read it unless it holds secrets.  Kafka: ZkData.defaultAcls.
"""

import functools
import importlib.util
import re
import ssl

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from odradek.config.definition import SettingError
from odradek.config.types import Password
from odradek.controller.store.paths import is_open_to_all, is_sensitive
from odradek.controller.zookeeper_settings import ZooKeeperSettings

_LOGIN_MODULE = re.compile(r"\s*(?P<module>[\w.]+)\s+required\s(?P<options>.*);\s*", re.DOTALL)
_LOGIN_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
_DIGEST_LOGIN = "DigestLoginModule"
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@functools.lru_cache(maxsize=3)
def _acl(*, is_secure: bool, is_secret: bool) -> tuple[ACL, ...]:
    if not is_secure:
        return tuple(OPEN_ACL_UNSAFE)
    return (*CREATOR_ALL_ACL, *(() if is_secret else READ_ACL_UNSAFE))


def default_acls(path: str, *, set_acl: bool) -> tuple[ACL, ...]:
    """Return the ACLs of a znode to be created; the path is without the chroot."""
    is_secure = set_acl and not is_open_to_all(path)
    return _acl(is_secure=is_secure, is_secret=is_secure and is_sensitive(path))


def sasl_options(settings: ZooKeeperSettings) -> dict[str, str] | None:
    """Return kazoo's SASL options; None if SASL is not configured."""
    if settings.sasl_jaas_config is None:
        return None
    if importlib.util.find_spec("puresasl") is None:
        raise SettingError(
            "zookeeper.sasl.jaas.config", None, "needs pure-sasl: install odradek[cluster]"
        )
    username, password = _parse_jaas_config(settings.sasl_jaas_config)
    return {"mechanism": "DIGEST-MD5", "username": username, "password": password}


def _parse_jaas_config(config: Password) -> tuple[str, str]:
    """Return username and password; error messages never contain them."""
    match = _LOGIN_MODULE.fullmatch(config.value)
    if match is None or not match["module"].endswith(_DIGEST_LOGIN):
        raise _invalid_jaas_config(
            f"must be `...{_DIGEST_LOGIN} required username=... password=...;`"
        )
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _LOGIN_OPTION.findall(match["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise _invalid_jaas_config("must set username and password")
    return options["username"], options["password"]


def _invalid_jaas_config(rule: str) -> SettingError:
    return SettingError("zookeeper.sasl.jaas.config", None, rule)


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    """None if TLS is not enabled."""
    if not settings.ssl_client_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    versions = settings.ssl_enabled_protocols or (settings.ssl_protocol,)
    context.minimum_version = _TLS_VERSIONS[min(versions)]
    context.maximum_version = _TLS_VERSIONS[max(versions)]
    _set_ciphers(context, settings.ssl_cipher_suites)
    _load_truststore(context, settings.ssl_truststore_location)
    _load_keystore(context, settings.ssl_keystore_location, settings.ssl_keystore_password)
    return context


def _set_ciphers(context: ssl.SSLContext, suites: tuple[str, ...] | None) -> None:
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError as error:
            rule = "must be known to OpenSSL"
            raise SettingError("zookeeper.ssl.cipher.suites", ",".join(suites), rule) from error


def _load_truststore(context: ssl.SSLContext, path: str | None) -> None:
    if path is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(path)
    except OSError as error:
        name = "zookeeper.ssl.truststore.location"
        raise SettingError(name, path, f"must be a PEM file with certificates: {error}") from None


def _load_keystore(context: ssl.SSLContext, path: str | None, password: Password | None) -> None:
    if path is None:
        return
    # Without a password pass an empty one: OpenSSL would otherwise prompt on the terminal.
    try:
        context.load_cert_chain(path, password=password.value if password else "")
    except OSError as error:
        name = "zookeeper.ssl.keystore.location"
        rule = f"must be a PEM file with a certificate and its key: {error}"
        raise SettingError(name, path, rule) from None
