"""Turns a declaration and a version into an encode and a decode function, on first use.

Compiling takes a few milliseconds a function and there are over a thousand, so nothing is
compiled before it is needed.  ``source_of`` shows what was written, for the curious.

Owner: none; the caches only grow, by one entry for each message and version.
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
    """``decode(frame, position=0)`` gives the message that takes up the rest of the frame."""
    return _compile_decoder(message, version, whole_frame=True)


@cache
def prefix_decoder(message: type[Struct], version: int) -> Decoder:
    """``decode(frame, position=0)`` gives the message there and the position after it."""
    return _compile_decoder(message, version, whole_frame=False)


def _compile_decoder(message: type[Struct], version: int, *, whole_frame: bool) -> Decoder:
    check_version(message, version)
    source = DecoderSource(message, version, whole_frame=whole_frame)
    function: Decoder = _compile_function(source.text, source.namespace, "decode", message, version)
    return function


@cache
def encoder(message: type[Struct], version: int) -> Encoder:
    """``encode(message)`` gives the buffers that make it up."""
    check_version(message, version)
    source = EncoderSource(message, version)
    function: Encoder = _compile_function(source.text, source.namespace, "encode", message, version)
    return function


def source_of(message: type[Struct], version: int) -> str:
    """The Python text of both functions."""
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
