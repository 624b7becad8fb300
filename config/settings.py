"""Tables of settings: typed, immutable values read from several config sources.

Kafka: AbstractConfig and DynamicBrokerConfig's precedence of sources.

    class NetworkSettings(Settings):
        num_network_threads: int = integer("num.network.threads", default=1, ...)

    settings = NetworkSettings.read({ConfigSource.FILE: {"num.network.threads": "3"}})
    settings.num_network_threads        # 3

The sources, highest precedence first: topic or group, broker, cluster, file, default.  A table
keeps the configured texts of all sources, for DescribeConfigs and for ``with_changes``, which
returns the table after a dynamic update.  A text given for the source DEFAULT replaces the declared
default.

A topic's table is declared with ``update=UpdateMode.TOPIC``, a group's with ``UpdateMode.GROUP``.
Such a table is read together with the server's tables: a setting that the topic or group does not
override takes the value of its synonym there.

Owner: none; immutable, any thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from itertools import dropwhile, product
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

from odradek.config.definition import (
    REQUIRED,
    ConfigSource,
    Fallback,
    Setting,
    SettingError,
    UpdateMode,
    boolean,
    choice,
    class_name,
    integer,
    long,
    number,
    password,
    short,
    text,
    text_list,
)
from odradek.config.types import HIDDEN

#: The source of overrides in tables that are read on top of the server's tables.
_OVERRIDE_SOURCES = {UpdateMode.TOPIC: ConfigSource.TOPIC, UpdateMode.GROUP: ConfigSource.GROUP}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One configured or default value of a setting; a description lists them by precedence."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigDescription:
    """A setting as DescribeConfigs shows it. The value of a password is None."""

    setting: Setting
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def read_only(self) -> bool:
        return self.setting.update is UpdateMode.READ_ONLY


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        boolean,
        choice,
        class_name,
        integer,
        long,
        number,
        password,
        short,
        text,
        text_list,
    ),
)
class Settings:
    """A table: the class holds the declarations, an instance holds the values of one moment."""

    by_name: ClassVar[Mapping[str, Setting]]
    attributes: ClassVar[Mapping[str, str]]

    _configs: Mapping[ConfigSource, Mapping[str, str]]
    _server_tables: tuple["Settings", ...]

    def __init_subclass__(cls, *, update: UpdateMode = UpdateMode.READ_ONLY) -> None:
        """``update`` is the mode of every setting in the table that does not state one."""
        for base in cls.__mro__[1:]:
            if _declared_in(base):
                raise TypeError(
                    f"{cls.__name__} extends {base.__name__}, but a table cannot extend another"
                )
        declared = _declared_in(cls)
        settings = [
            replace(setting, update=update) if setting.update is UpdateMode.READ_ONLY else setting
            for setting in declared.values()
        ]
        cls.by_name = MappingProxyType({setting.name: setting for setting in settings})
        cls.attributes = MappingProxyType(
            {setting.name: attribute for attribute, setting in declared.items()}
        )
        if len(cls.by_name) < len(declared):
            raise TypeError(f"{cls.__name__} declares one name twice")
        for setting in cls.by_name.values():
            cls._check_fallbacks(setting)

    @classmethod
    def _check_fallbacks(cls, setting: Setting) -> None:
        seen = [setting.name]
        while isinstance(setting.default, Fallback):
            name = setting.default.name
            if name in seen or name not in cls.by_name:
                raise TypeError(f"{cls.__name__}: {seen[0]} cannot fall back to {name}")
            seen.append(name)
            setting = cls.by_name[name]

    def __init__(self, **values: Any) -> None:
        """Takes Python values, as if they were set in the file, or for the topic or group."""
        unknown = values.keys() - self.attributes.values()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        configs: dict[ConfigSource, dict[str, str]] = {}
        for name, attribute in self.attributes.items():
            setting = self.by_name[name]
            if values.get(attribute) is not None:
                source = _OVERRIDE_SOURCES.get(setting.update, ConfigSource.FILE)
                configs.setdefault(source, {})[name] = setting.format(values[attribute])
        self._fill(configs, ())

    @classmethod
    def read(
        cls,
        configs: Mapping[ConfigSource, Mapping[str, str]],
        *,
        server_tables: Sequence["Settings"] = (),
    ) -> Self:
        """Read the table's values; names unknown to it are ignored, see ``unknown_names``."""
        table = cls.__new__(cls)
        table._fill(configs, server_tables)
        return table

    def with_changes(self, changes: Mapping[str, str | None], *, source: ConfigSource) -> Self:
        """Return the table after a dynamic update; None removes the source's text.

        All names must belong to this table: a change of another table's setting would be lost.
        """
        texts = dict(self._configs.get(source, {}))
        for name, value in changes.items():
            if name not in self.by_name:
                raise SettingError(name, None, f"is not a setting of {type(self).__name__}")
            _check_changeable(self.by_name[name], value, source)
            texts.pop(name, None)
            if value is not None:
                texts[name] = value
        return self.read({**self._configs, source: texts}, server_tables=self._server_tables)

    def with_server_tables(self, server_tables: Sequence["Settings"]) -> Self:
        """Return the table of the same topic or group after the server's settings changed."""
        return self.read(self._configs, server_tables=server_tables)

    def check(self) -> None:
        """Check rules between settings; a table overrides this and raises SettingError."""

    def describe(self, name: str) -> ConfigDescription:
        setting = self.by_name[name]
        synonyms = tuple(self._synonyms(setting))
        return ConfigDescription(
            setting=setting,
            value=setting.display_value(self._own_value(setting)),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            synonyms=synonyms,
        )

    def _fill(
        self, configs: Mapping[ConfigSource, Mapping[str, str]], server_tables: Sequence["Settings"]
    ) -> None:
        state = self.__dict__
        state["_server_tables"] = tuple(server_tables)
        state["_configs"] = {
            source: {
                name: configs[source][name] for name in configs[source] if name in self.by_name
            }
            for source in ConfigSource
            if source in configs
        }
        self._check_configs()
        for name, attribute in self.attributes.items():
            state[attribute] = self._value(self.by_name[name])
        self.check()

    def _check_configs(self) -> None:
        # Check also texts that a stronger source hides. Otherwise an invalid text would be noticed
        # only when the stronger one is removed.
        for texts in self._configs.values():
            for name, value in texts.items():
                self.by_name[name].parse(value)

    def _value(self, setting: Setting) -> Any:
        """Return the value in force. The source takes precedence over the distance in the chain."""
        chain = list(self._fallback_chain(setting))
        for texts, (link, multiplier) in product(self._configs.values(), chain):
            if link.name in texts:
                return _convert(setting, link.parse(texts[link.name]), multiplier)
        inherited = self._inherited_value(setting)
        if inherited is not None:
            return inherited
        link, multiplier = chain[-1]
        if link.default is REQUIRED:
            raise SettingError(link.name, None, "must be given")
        return _convert(setting, link.default, multiplier)

    def _own_value(self, setting: Setting) -> Any:
        """Return the value without fallbacks; None if it falls back to a setting of this table."""
        for texts in self._configs.values():
            if setting.name in texts:
                return setting.parse(texts[setting.name])
        inherited = self._inherited_value(setting)
        return setting.literal_default if inherited is None else inherited

    def _fallback_chain(
        self, setting: Setting, multiplier: int = 1
    ) -> Iterator[tuple[Setting, int]]:
        """Yield the setting and its fallbacks, each with the factor to the first one's unit."""
        yield setting, multiplier
        if isinstance(setting.default, Fallback):
            link = self.by_name[setting.default.name]
            yield from self._fallback_chain(link, multiplier * setting.default.multiplier)

    def _inherited_value(self, setting: Setting) -> Any:
        for table, synonym in self._server_settings(setting):
            return getattr(table, table.attributes[synonym.name])
        return None

    def _server_settings(self, setting: Setting) -> Iterator[tuple["Settings", Setting]]:
        for table in self._server_tables:
            synonym = table.by_name.get(setting.synonym or "")
            if synonym is not None:
                yield table, synonym

    def _synonyms(self, setting: Setting) -> Iterator[ConfigSynonym]:
        if setting.update is UpdateMode.TOPIC:
            return self._topic_synonyms(setting)
        if setting.update is UpdateMode.GROUP:
            return self._group_synonyms(setting)
        chain = [link for link, _ in self._fallback_chain(setting)]
        configured = (
            ConfigSynonym(link.name, None if link.sensitive else texts[link.name], source)
            for source, texts in self._configs.items()
            for link in chain
            if link.name in texts
        )
        replaced_defaults = self._configs.get(ConfigSource.DEFAULT, {})
        defaults = (
            ConfigSynonym(link.name, link.display_value(link.literal_default), ConfigSource.DEFAULT)
            for link in chain
            if link.literal_default is not None and link.name not in replaced_defaults
        )
        # Kafka's list starts at the first entry with the setting's own name.
        return dropwhile(lambda synonym: synonym.name != setting.name, (*configured, *defaults))

    def _group_synonyms(self, setting: Setting) -> Iterator[ConfigSynonym]:
        """Yield only the setting's own name: Kafka reports the server's value as a default."""
        is_own = setting.name in self._configs.get(ConfigSource.GROUP, {})
        source = ConfigSource.GROUP if is_own else ConfigSource.DEFAULT
        yield ConfigSynonym(setting.name, setting.display_value(self._own_value(setting)), source)

    def _topic_synonyms(self, setting: Setting) -> Iterator[ConfigSynonym]:
        """Yield the topic's override and the server's synonyms; the declared default is not one."""
        if setting.name in self._configs.get(ConfigSource.TOPIC, {}):
            yield ConfigSynonym(
                setting.name, setting.display_value(self._own_value(setting)), ConfigSource.TOPIC
            )
        for table, synonym in self._server_settings(setting):
            yield from table._synonyms(synonym)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, attribute) for attribute in self.attributes.values())

    def __eq__(self, other: object) -> bool:
        """Tables are equal if their values in force are equal, regardless of the sources."""
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        changed = (
            f"{attribute}={value!r}"
            for (name, attribute), value in zip(
                self.attributes.items(), self._values(), strict=True
            )
            if value != self.by_name[name].literal_default
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__}.{attribute} cannot be assigned")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__}.{attribute} cannot be deleted")


def unknown_names(names: Iterable[str], tables: Iterable[type[Settings]]) -> list[str]:
    """Return the names that no table declares, in their order."""
    known = {name for table in tables for name in table.by_name}
    return [name for name in names if name not in known]


def _declared_in(cls: type) -> dict[str, Setting]:
    return {
        attribute: setting
        for attribute, setting in vars(cls).items()
        if isinstance(setting, Setting)
    }


def _convert(setting: Setting, value: Any, multiplier: int) -> Any:
    if value is None:
        return None
    converted = value if multiplier == 1 else value * multiplier
    setting.check_value(converted)
    return converted


def _check_changeable(setting: Setting, value: str | None, source: ConfigSource) -> None:
    if source not in setting.update.sources:
        shown = HIDDEN if setting.sensitive and value is not None else value
        rule = f"is {setting.update.label}: it cannot be changed for the {source.name.lower()}"
        raise SettingError(setting.name, shown, rule)
