"""Where do a server's settings come from?  A file, the environment, the command line.

    server.properties               log.segment.bytes=1048576
    environment                     ODRADEK_LOG_SEGMENT_BYTES=1048576
    command line                    --port 9092, then --override log.segment.bytes=1048576

Each goes before the ones above it.  A variable's name is the setting's in capitals, after ODRADEK_,
with ``_`` for a dot, ``__`` for an underscore and ``___`` for a hyphen, as in the container images
of Kafka.  A variable that names no setting is none of ours, and left alone.

A bad value ends in one line that says where it stands, what it is and which rule it breaks.
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
    split_listener,
)
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME, ServerSettings
from odradek.config import properties
from odradek.config.definition import ConfigSource, SettingError

log = logging.getLogger(__name__)

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
    """The server cannot start with these; the message is one line for whoever wrote them."""


@dataclass(frozen=True, slots=True)
class RawSetting:
    """A setting's text, and where it stands: a line, a variable, the command line."""

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
    """``usual`` stands in for a file.  Raises BadSettings; what has no effect is logged, once."""
    raw_settings = {
        **(_read_file(file) if file else _read_defaults(defaults or {})),
        **_read_environment(environment),
    }
    raw_settings |= {**_read_port_option(port, raw_settings), **_read_overrides(overrides)}
    try:
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
        log.warning("%s: %s is given on lines %s; the last one counts", path, name, _join(lines))
    return {
        name: RawSetting(text, f"{path}:{content.line_numbers[name][-1]}")
        for name, text in content.values.items()
    }


def _read_defaults(defaults: Mapping[str, str]) -> dict[str, RawSetting]:
    return {name: RawSetting(text, "without a file") for name, text in defaults.items()}


def _read_environment(environment: Mapping[str, str]) -> dict[str, RawSetting]:
    named = ((setting_name_of(variable), variable) for variable in environment)
    return {
        name: RawSetting(environment[variable], variable)
        for name, variable in named
        if name is not None
    }


def setting_name_of(variable: str) -> str | None:
    """None if the variable names no setting."""
    if not variable.startswith(VARIABLE_PREFIX):
        return None
    encoded = variable.removeprefix(VARIABLE_PREFIX).lower()
    name = _UNDERSCORES.sub(lambda match: _SIGNS[match[0]], encoded)
    return name if name.startswith(LISTENER_PREFIX) else _BY_LOWER_NAME.get(name)


def _read_port_option(
    port: int | None, settings: Mapping[str, RawSetting]
) -> dict[str, RawSetting]:
    """On this machine alone, and so nothing else can be advertised."""
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
        for label, listed in (("settings of Kafka", kafka_names), ("unknown", unknown))
        if listed
    ]
    if parts:
        log.warning("These have no effect here; %s", "; ".join(parts))


def _join(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
