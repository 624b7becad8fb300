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

from odradek.broker.settings import kafka_names
from odradek.broker.settings.server_settings import BY_NAME, ServerSettings
from odradek.broker.settings.updates import LISTENER_PREFIX, split_listener
from odradek.config import properties
from odradek.config.definition import Layer, SettingError

log = logging.getLogger(__name__)

PREFIX = "ODRADEK_"
OVERRIDE = "--override"
PORT = "--port"

_ADVERTISED = {"advertised.listeners"}

_SIGNS = {"_": ".", "__": "_", "___": "-"}
_UNDERSCORES = re.compile("_{1,3}")
_BY_LOWER_NAME = {
    name.lower(): name for name in (*kafka_names.READ_ONLY, *kafka_names.DYNAMIC, *BY_NAME)
}


class BadSettings(Exception):
    """The server cannot start with these; the message is one line for whoever wrote them."""


@dataclass(frozen=True, slots=True)
class Written:
    """A setting's text, and where it stands: a line, a variable, the command line."""

    text: str
    place: str


def load(
    *,
    file: Path | None,
    environment: Mapping[str, str],
    overrides: Sequence[str],
    usual: Mapping[str, str] | None = None,
    port: int | None = None,
) -> ServerSettings:
    """``usual`` stands in for a file.  Raises BadSettings; what has no effect is logged, once."""
    written = {
        **(_in_file(file) if file else _without_file(usual or {})),
        **_in_environment(environment),
    }
    written |= {**_at_port(port, written), **_on_command_line(overrides)}
    try:
        settings = ServerSettings.read({Layer.FILE: {name: written[name].text for name in written}})
    except SettingError as broken:
        place = written[broken.name].place if broken.name in written else file
        raise BadSettings(f"{place}: {broken}" if place else str(broken)) from broken
    _log_undeclared(settings.undeclared())
    return settings


def _in_file(path: Path) -> dict[str, Written]:
    try:
        found = properties.load(path)
    except OSError as failure:
        raise BadSettings(f"{path}: {failure.strerror}") from failure
    except properties.PropertiesError as broken:
        raise BadSettings(str(broken)) from broken
    for name, lines in found.duplicates.items():
        log.warning("%s: %s is given on lines %s; the last one counts", path, name, _listed(lines))
    return {
        name: Written(text, f"{path}:{found.lines[name][-1]}") for name, text in found.texts.items()
    }


def _without_file(usual: Mapping[str, str]) -> dict[str, Written]:
    return {name: Written(text, "without a file") for name, text in usual.items()}


def _in_environment(environment: Mapping[str, str]) -> dict[str, Written]:
    named = ((setting_of(variable), variable) for variable in environment)
    return {
        name: Written(environment[variable], variable)
        for name, variable in named
        if name is not None
    }


def setting_of(variable: str) -> str | None:
    """None if the variable names no setting."""
    if not variable.startswith(PREFIX):
        return None
    written = variable.removeprefix(PREFIX).lower()
    name = _UNDERSCORES.sub(lambda found: _SIGNS[found[0]], written)
    return name if name.startswith(LISTENER_PREFIX) else _BY_LOWER_NAME.get(name)


def _at_port(port: int | None, written: Mapping[str, Written]) -> dict[str, Written]:
    """On this machine alone, and so nothing else can be advertised."""
    if port is None:
        return {}
    here = Written(f"PLAINTEXT://127.0.0.1:{port}", PORT)
    return dict.fromkeys(("listeners", *(_ADVERTISED & written.keys())), here)


def _on_command_line(overrides: Iterable[str]) -> dict[str, Written]:
    written = {}
    for override in overrides:
        name, sign, text = override.partition("=")
        if not sign or not name.strip():
            raise BadSettings(f"{OVERRIDE} {override}: must be name=value")
        written[name.strip()] = Written(text.strip(), OVERRIDE)
    return written


def _log_undeclared(names: Iterable[str]) -> None:
    kafkas: list[str] = []
    unknown: list[str] = []
    for name in sorted(names):
        _, base = split_listener(name)
        is_kafkas = base in kafka_names.READ_ONLY or base in kafka_names.DYNAMIC
        (kafkas if is_kafkas else unknown).append(name)
    parts = [
        f"{words}: {_listed(found)}"
        for words, found in (("settings of Kafka", kafkas), ("unknown", unknown))
        if found
    ]
    if parts:
        log.warning("These have no effect here; %s", "; ".join(parts))


def _listed(things: Iterable[object]) -> str:
    return ", ".join(map(str, things))
