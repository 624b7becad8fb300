"""Compiles a declaration and a version into an encode and a decode function, on first use.

Compiling takes a few milliseconds per function and there are over a thousand functions, so each is
compiled when it is first needed.  ``source_of`` returns the generated source for inspection.

Owner: none; the caches only grow, by one entry per message and version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from odradek.protocol.decoder_source import DecoderSource
from odradek.protocol.encoder_source import EncoderSource
from odradek.protocol.schema import Struct

Decoder = Callable[..., Any]
Encoder = Callable[[Any], list[Any]]


@cache
def decoder(message: type[Struct], version: int) -> Decoder:
    """Return ``decode(frame, position=0)``, which decodes the message filling the frame's rest."""
    return _compile_decoder(message, version, whole_frame=True)


@cache
def prefix_decoder(message: type[Struct], version: int) -> Decoder:
    """Return ``decode(frame, position=0)``, which returns the message and the position after it."""
    return _compile_decoder(message, version, whole_frame=False)


def _compile_decoder(message: type[Struct], version: int, *, whole_frame: bool) -> Decoder:
    check_version(message, version)
    source = DecoderSource(message, version, whole_frame=whole_frame)
    function: Decoder = _compile_function(source.text, source.namespace, "decode", message, version)
    return function


@cache
def encoder(message: type[Struct], version: int) -> Encoder:
    """Return ``encode(message)``, which returns the message as a list of buffers."""
    check_version(message, version)
    source = EncoderSource(message, version)
    function: Encoder = _compile_function(source.text, source.namespace, "encode", message, version)
    return function


def source_of(message: type[Struct], version: int) -> str:
    """Return the Python source of both functions."""
    check_version(message, version)
    decoding = DecoderSource(message, version, whole_frame=True).text
    return decoding + "\n\n" + EncoderSource(message, version).text


def check_version(message: type[Struct], version: int) -> None:
    schema = message.__schema__
    if version not in schema.versions:
        raise ValueError(f"{schema.name} has versions {schema.versions}, not {version}")


def _compile_function(
    text: str, namespace: dict[str, Any], name: str, message: type[Struct], version: int
) -> Any:
    exec(compile(text, f"<{name} {message.__qualname__} v{version}>", "exec"), namespace)
    return namespace[name]
