"""Who may do what in ZooKeeper, and how we show who we are: lists for nodes, SASL, TLS.

The lists are Kafka's: with ``zookeeper.set.acl`` a node can be changed by its creator alone and
read by everybody, unless secrets are kept below it.
"""

import functools
import importlib.util
import re
import ssl

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from odradek.config.definition import SettingError
from odradek.config.kinds import Password
from odradek.controller.settings import ZooKeeperSettings
from odradek.controller.store.paths import is_open_to_all, is_sensitive

_LOGIN_MODULE = re.compile(r"\s*(?P<module>[\w.]+)\s+required\s(?P<options>.*);\s*", re.DOTALL)
_LOGIN_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))')
_DIGEST_LOGIN = "DigestLoginModule"
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@functools.lru_cache(maxsize=3)
def _list(*, is_secure: bool, is_secret: bool) -> tuple[ACL, ...]:
    if not is_secure:
        return tuple(OPEN_ACL_UNSAFE)
    return (*CREATOR_ALL_ACL, *(() if is_secret else READ_ACL_UNSAFE))


def access_list(path: str, *, set_acl: bool) -> tuple[ACL, ...]:
    """Of a node about to be created; the path is without the chroot."""
    is_secure = set_acl and not is_open_to_all(path)
    return _list(is_secure=is_secure, is_secret=is_secure and is_sensitive(path))


def sasl_options(settings: ZooKeeperSettings) -> dict[str, str] | None:
    """As kazoo takes them; None where we do not authenticate by SASL."""
    if settings.sasl_jaas_config is None:
        return None
    if importlib.util.find_spec("puresasl") is None:
        raise SettingError("zookeeper.sasl.jaas.config", None, "needs pure-sasl: odradek[cluster]")
    name, secret = _login(settings.sasl_jaas_config)
    return {"mechanism": "DIGEST-MD5", "username": name, "password": secret}


def _login(config: Password) -> tuple[str, str]:
    """Name and password; what is wrong is told without showing them."""
    match = _LOGIN_MODULE.fullmatch(config.value)
    if match is None or not match["module"].endswith(_DIGEST_LOGIN):
        raise _bad_login(f"must be `...{_DIGEST_LOGIN} required username=... password=...;`")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _LOGIN_OPTION.findall(match["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise _bad_login("must name a username and a password")
    return options["username"], options["password"]


def _bad_login(rule: str) -> SettingError:
    return SettingError("zookeeper.sasl.jaas.config", None, rule)


def tls_context(settings: ZooKeeperSettings) -> ssl.SSLContext | None:
    """None where we do not speak TLS."""
    if not settings.ssl_client_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    versions = settings.ssl_enabled_protocols or (settings.ssl_protocol,)
    context.minimum_version = _TLS_VERSIONS[min(versions)]
    context.maximum_version = _TLS_VERSIONS[max(versions)]
    _choose_ciphers(context, settings.ssl_cipher_suites)
    _load_trusted(context, settings.ssl_truststore_location)
    _load_own(context, settings.ssl_keystore_location, settings.ssl_keystore_password)
    return context


def _choose_ciphers(context: ssl.SSLContext, suites: tuple[str, ...] | None) -> None:
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError as failure:
            rule = "must be known to OpenSSL"
            raise SettingError("zookeeper.ssl.cipher.suites", ",".join(suites), rule) from failure


def _load_trusted(context: ssl.SSLContext, path: str | None) -> None:
    if path is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(path)
    except OSError as failure:
        name = "zookeeper.ssl.truststore.location"
        raise SettingError(name, path, f"must be a PEM file with certificates: {failure}") from None


def _load_own(context: ssl.SSLContext, path: str | None, secret: Password | None) -> None:
    if path is None:
        return
    # Empty where there is none, since OpenSSL would otherwise ask for it on the terminal.
    try:
        context.load_cert_chain(path, password=secret.value if secret else "")
    except OSError as failure:
        name = "zookeeper.ssl.keystore.location"
        rule = f"must be a PEM file with a certificate and its key: {failure}"
        raise SettingError(name, path, rule) from None
