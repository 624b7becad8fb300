"""The declaration of one setting: name, type, default and rules. Kafka: ConfigDef.ConfigKey.

    num_network_threads: int = integer(
        "num.network.threads", default=1, at_least=1, update=UpdateMode.CLUSTER,
        doc="Processors.  Each owns its connections for life.",
    )

A setting declared without ``default`` is required.  A setting without a configured value can fall
back to another setting: ``default=value_of("log.retention.hours", multiplier=60)`` names a setting
of the same table, ``synonym="log.segment.bytes"`` (on a topic or group setting) names a setting of
the server's tables.

Owner: none; immutable, any thread.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Required, TypedDict, TypeVar, Unpack, cast

from odradek.config.types import HIDDEN, ConfigType, Password

# Typed Any because it is the default of every field specifier, whatever the value's type.
REQUIRED: Any = object()


class SettingError(Exception):
    """A value breaks a rule: ``num.network.threads=0: must be at least 1``."""

    def __init__(self, name: str, text: str | None, rule: str) -> None:
        super().__init__(name, text, rule)
        self.name = name
        self.rule = rule

    def __str__(self) -> str:
        name, text, rule = self.args
        return f"{name}: {rule}" if text is None else f"{name}={text}: {rule}"


class ConfigSource(Enum):
    """The origin of a value, highest precedence first. The numbers are DescribeConfigs' sources."""

    TOPIC = 1
    GROUP = 8
    BROKER = 2
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5


class UpdateMode(Enum):
    """name = (Kafka's name of the mode, the sources that can change while the broker runs)"""

    READ_ONLY = ("read-only", ())
    BROKER = ("per-broker", (ConfigSource.BROKER,))
    CLUSTER = ("cluster-wide", (ConfigSource.BROKER, ConfigSource.CLUSTER))
    TOPIC = ("per-topic", (ConfigSource.TOPIC,))
    GROUP = ("per-group", (ConfigSource.GROUP,))

    def __init__(self, label: str, sources: tuple[ConfigSource, ...]) -> None:
        self.label = label
        self.sources = sources


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Fallback:
    """A default that is another setting's value."""

    name: str
    multiplier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The declaration of a setting, independent of its value."""

    name: str
    type: ConfigType
    default: Any
    doc: str
    update: UpdateMode = UpdateMode.READ_ONLY
    importance: Importance = Importance.MEDIUM
    synonym: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    one_of: Collection[str] = ()
    non_empty: bool = False
    check: Callable[[Any], str | None] | None = None

    def __post_init__(self) -> None:
        if self.literal_default is not None:
            self.format(self.literal_default)
            self.check_value(self.literal_default)

    @property
    def literal_default(self) -> Any:
        """The declared value; None if the setting is required or falls back to another setting."""
        missing = self.default is REQUIRED or isinstance(self.default, Fallback)
        return None if missing else self.default

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def bounds(self) -> str:
        """The bounds in words; empty if there are none."""
        if self.at_least is not None and self.at_most is not None:
            return f"between {self.at_least} and {self.at_most}"
        if self.at_least is not None:
            return f"at least {self.at_least}"
        return "" if self.at_most is None else f"at most {self.at_most}"

    def display_value(self, value: Any) -> str | None:
        """Return the text for DescribeConfigs: None for a password and for a value of None."""
        return None if self.sensitive or value is None else self.type.format(value)

    def parse(self, text: str) -> Any:
        try:
            value = self.type.parse(text)
        except ValueError as error:
            raise SettingError(self.name, text, str(error)) from error
        self.check_value(value)
        return value

    def format(self, value: Any) -> str:
        """Return the text that ``parse`` turns into this value."""
        try:
            return self.type.format(value)
        except ValueError as error:
            raise SettingError(self.name, None, str(error)) from error

    def check_value(self, value: Any) -> None:
        rule = self._broken_rule(value)
        if rule is not None:
            raise SettingError(
                self.name, HIDDEN if self.sensitive else self.display_value(value), rule
            )

    def _broken_rule(self, value: Any) -> str | None:
        if self.non_empty and not value:
            return "must not be empty"
        if self.at_least is not None and value < self.at_least:
            return f"must be {self.bounds}"
        if self.at_most is not None and value > self.at_most:
            return f"must be {self.bounds}"
        elements = value if self.type is ConfigType.LIST else (value,)
        if self.one_of and not set(elements).issubset(self.one_of):
            return f"must be one of {', '.join(self.one_of)}"
        return self.check(value) if self.check else None


class Options(TypedDict, total=False):
    """The options that a setting of any type accepts."""

    doc: Required[str]
    update: UpdateMode
    importance: Importance
    synonym: str


class WholeNumberOptions(Options, total=False):
    at_least: int
    at_most: int
    check: Callable[[int], str | None]


class NumberOptions(Options, total=False):
    at_least: float
    at_most: float
    check: Callable[[float], str | None]


class TextOptions(Options, total=False):
    """``check`` returns the rule that a value breaks, such as "must name a port"."""

    non_empty: bool
    check: Callable[[str], str | None]


class ListOptions(Options, total=False):
    one_of: Collection[str]
    non_empty: bool
    check: Callable[[tuple[str, ...]], str | None]


# Each specifier returns the type of its default. A type checker can then compare the default, and
# the annotation of the attribute, with the setting's value type.
_Default = TypeVar("_Default")
_Boolean = TypeVar("_Boolean", bound=bool | None)
_Int = TypeVar("_Int", bound=int | None)
_Float = TypeVar("_Float", bound=float | None)
_Text = TypeVar("_Text", bound=str | None)
_List = TypeVar("_List", bound=tuple[str, ...] | None)
_Secret = TypeVar("_Secret", bound=Password | None)


def boolean(name: str, *, default: _Boolean = REQUIRED, **options: Unpack[Options]) -> _Boolean:
    return _declare(ConfigType.BOOLEAN, name, default, options)


def short(name: str, *, default: _Int = REQUIRED, **options: Unpack[WholeNumberOptions]) -> _Int:
    return _declare(ConfigType.SHORT, name, default, options)


def integer(name: str, *, default: _Int = REQUIRED, **options: Unpack[WholeNumberOptions]) -> _Int:
    return _declare(ConfigType.INT, name, default, options)


def long(name: str, *, default: _Int = REQUIRED, **options: Unpack[WholeNumberOptions]) -> _Int:
    return _declare(ConfigType.LONG, name, default, options)


def number(name: str, *, default: _Float = REQUIRED, **options: Unpack[NumberOptions]) -> _Float:
    return _declare(ConfigType.DOUBLE, name, default, options)


def text(name: str, *, default: _Text = REQUIRED, **options: Unpack[TextOptions]) -> _Text:
    return _declare(ConfigType.STRING, name, default, options)


def choice(
    name: str, one_of: Collection[str], *, default: _Text = REQUIRED, **options: Unpack[Options]
) -> _Text:
    return _declare(ConfigType.STRING, name, default, {**options, "one_of": one_of})


def class_name(name: str, *, default: _Text = REQUIRED, **options: Unpack[TextOptions]) -> _Text:
    """Declare a Java class name or its substitute here; DescribeConfigs reports the type CLASS."""
    return _declare(ConfigType.CLASS, name, default, options)


def text_list(name: str, *, default: _List = REQUIRED, **options: Unpack[ListOptions]) -> _List:
    return _declare(ConfigType.LIST, name, default, options)


def password(name: str, *, default: _Secret = REQUIRED, **options: Unpack[Options]) -> _Secret:
    return _declare(ConfigType.PASSWORD, name, default, options)


def value_of(name: str, *, multiplier: int = 1) -> Any:
    """A default: the value of the named setting of the same table, times a unit conversion."""
    return Fallback(name, multiplier)


def _declare(
    config_type: ConfigType, name: str, default: _Default, options: Mapping[str, Any]
) -> _Default:
    # At run time the class body receives the declaration; the type checker sees the value's type.
    return cast(_Default, Setting(type=config_type, name=name, default=default, **options))
