"""Reads the settings of a broker from a file, the environment and the command line.

    server.properties               log.segment.bytes=1048576
    environment                     ODRADEK_LOG_SEGMENT_BYTES=1048576
    command line                    --port 9092, then --override log.segment.bytes=1048576

Each source overrides those above it.  The name of a variable is ODRADEK_ and the setting's name in
capitals, with ``_`` for a dot, ``__`` for an underscore and ``___`` for a hyphen, as in Kafka's
container images.  A variable that names no setting is ignored.

The error for an invalid value is one line with its location, the value and the rule that it breaks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from odradek.broker.settings import kafka_config_names
from odradek.broker.settings.dynamic_config_rules import (
    LISTENER_PREFIX,
    check_supported,
    split_listener,
)
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME, ServerSettings
from odradek.config import properties
from odradek.config.definition import ConfigSource, SettingError

log = logging.getLogger("kafka.server")

VARIABLE_PREFIX = "ODRADEK_"
OVERRIDE = "--override"
PORT = "--port"

_ADVERTISED = {"advertised.listeners"}

_SIGNS = {"_": ".", "__": "_", "___": "-"}
_UNDERSCORES = re.compile("_{1,3}")
_BY_LOWER_NAME = {
    name.lower(): name
    for name in (*kafka_config_names.READ_ONLY, *kafka_config_names.DYNAMIC, *SETTINGS_BY_NAME)
}


class BadSettings(Exception):
    """The broker cannot start with these settings; the message is one line for the operator."""


@dataclass(frozen=True, slots=True)
class RawSetting:
    """The text of a setting and its location: a line, a variable or the command line."""

    text: str
    location: str


def load(
    *,
    file: Path | None,
    environment: Mapping[str, str],
    overrides: Sequence[str],
    defaults: Mapping[str, str] | None = None,
    port: int | None = None,
) -> ServerSettings:
    """``defaults`` replace a missing file.  Raises BadSettings.  Ignored names are logged once."""
    raw_settings = {
        **(_read_file(file) if file else _read_defaults(defaults or {})),
        **_read_environment(environment),
    }
    raw_settings |= {**_read_port_option(port, raw_settings), **_read_overrides(overrides)}
    try:
        for name, value in raw_settings.items():
            check_supported(name, value.text)
        settings = ServerSettings.read(
            {ConfigSource.FILE: {name: raw_settings[name].text for name in raw_settings}}
        )
    except SettingError as error:
        location = raw_settings[error.name].location if error.name in raw_settings else file
        raise BadSettings(f"{location}: {error}" if location else str(error)) from error
    _log_undeclared(settings.undeclared_names())
    return settings


def _read_file(path: Path) -> dict[str, RawSetting]:
    try:
        content = properties.load(path)
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}") from error
    except properties.PropertiesError as syntax_error:
        raise BadSettings(str(syntax_error)) from syntax_error
    for name, lines in content.duplicates.items():
        log.warning("%s: %s is set on lines %s; the last value is used", path, name, _join(lines))
    return {
        name: RawSetting(text, f"{path}:{content.line_numbers[name][-1]}")
        for name, text in content.values.items()
    }


def _read_defaults(defaults: Mapping[str, str]) -> dict[str, RawSetting]:
    return {name: RawSetting(text, "built-in default") for name, text in defaults.items()}


def _read_environment(environment: Mapping[str, str]) -> dict[str, RawSetting]:
    named = ((setting_name_of(variable), variable) for variable in environment)
    return {
        name: RawSetting(environment[variable], variable)
        for name, variable in named
        if name is not None
    }


def setting_name_of(variable: str) -> str | None:
    """Return None if the variable names no setting."""
    if not variable.startswith(VARIABLE_PREFIX):
        return None
    encoded = variable.removeprefix(VARIABLE_PREFIX).lower()
    name = _UNDERSCORES.sub(lambda match: _SIGNS[match[0]], encoded)
    return name if name.startswith(LISTENER_PREFIX) else _BY_LOWER_NAME.get(name)


def _read_port_option(
    port: int | None, settings: Mapping[str, RawSetting]
) -> dict[str, RawSetting]:
    """``--port`` binds the loopback address, so an advertised address is replaced as well."""
    if port is None:
        return {}
    listener = RawSetting(f"PLAINTEXT://127.0.0.1:{port}", PORT)
    return dict.fromkeys(("listeners", *(_ADVERTISED & settings.keys())), listener)


def _read_overrides(overrides: Iterable[str]) -> dict[str, RawSetting]:
    settings = {}
    for override in overrides:
        name, sign, text = override.partition("=")
        if not sign or not name.strip():
            raise BadSettings(f"{OVERRIDE} {override}: must be name=value")
        settings[name.strip()] = RawSetting(text.strip(), OVERRIDE)
    return settings


def _log_undeclared(names: Iterable[str]) -> None:
    kafka_names: list[str] = []
    unknown: list[str] = []
    for name in sorted(names):
        _, base = split_listener(name)
        is_kafka_name = base in kafka_config_names.READ_ONLY or base in kafka_config_names.DYNAMIC
        (kafka_names if is_kafka_name else unknown).append(name)
    parts = [
        f"{label}: {_join(listed)}"
        for label, listed in (("Kafka settings", kafka_names), ("unknown", unknown))
        if listed
    ]
    if parts:
        log.warning("Ignoring unsupported settings; %s", "; ".join(parts))


def _join(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
