"""The nine config types and their text form. Kafka: ConfigDef.Type.

Text is parsed as Kafka's ``ConfigDef`` parses it: surrounding blanks are ignored, ``true`` and
``false`` are case-insensitive, whole numbers must be in the range of their Java type, lists are
comma-separated.  Values are formatted as Java's ``toString`` does, because DescribeConfigs shows
that.  Two deliberate differences: NaN is rejected, because no bound could reject it, and so are
hexadecimal fractions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from math import isinf
from typing import Any

HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A secret. Its repr is ``[hidden]``."""

    value: str

    def __repr__(self) -> str:
        return HIDDEN


class ConfigType(Enum):
    """The type of a setting. The numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    def parse(self, text: str) -> Any:
        """Parse the text; raises ValueError with the rule that the text breaks."""
        return _PARSERS[self](text.strip(_JAVA_TRIM_CHARACTERS))

    def format(self, value: Any) -> str:
        """Return the text that parses to the value; for a password, the secret itself.

        Raises ValueError with the rule that the value breaks.
        """
        return _FORMATTERS.get(self, str)(value)


# Java's trim() drops all characters up to U+0020, and no other Unicode blank.
_JAVA_TRIM_CHARACTERS = "".join(map(chr, range(0x21)))
_COMMA = re.compile(r"\s*,\s*", re.ASCII)
# Digits of any script, as in Java. Their number is bounded because int() raises above a limit.
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,100}")
_NUMBER = re.compile(r"([+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError("must be true or false")
    return lowered == "true"


def _integer_parser(bits: int) -> Callable[[str], int]:
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1

    def parse(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) and lowest <= int(text) <= highest:
            return int(text)
        raise ValueError(f"must be a whole number from {lowest} to {highest}")

    return parse


def _parse_number(text: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("must be a number")
    return float(match[1])


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(_COMMA.split(text)) if text else ()


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer_parser(32),
    ConfigType.SHORT: _integer_parser(16),
    ConfigType.LONG: _integer_parser(64),
    ConfigType.DOUBLE: _parse_number,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: Password,
}


def _format_boolean(value: bool) -> str:
    return "true" if value else "false"


def _format_number(value: float) -> str:
    """Format as Java does: plain from 0.001 up to ten million, with an exponent outside."""
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), value
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{len(digits) - 1 + exponent}"


def _format_list(value: tuple[str, ...]) -> str:
    if any("," in element for element in value):
        raise ValueError("must have no comma within an element")
    return ",".join(value)


def _format_password(value: Password) -> str:
    return value.value


_FORMATTERS: dict[ConfigType, Callable[[Any], str]] = {
    ConfigType.BOOLEAN: _format_boolean,
    ConfigType.DOUBLE: _format_number,
    ConfigType.LIST: _format_list,
    ConfigType.PASSWORD: _format_password,
}
