"""Tables of settings: typed, immutable values made from layers of text.

    class NetworkSettings(Settings):
        num_network_threads: int = integer("num.network.threads", default=1, ...)

    settings = NetworkSettings.read({Layer.FILE: {"num.network.threads": "3"}})
    settings.num_network_threads        # 3

The layers, the strongest first: topic or group, broker, cluster, file, default.  They stay with the
values, for DescribeConfigs and for ``with_changes``, which makes the table as it is after a dynamic
update.  What is given for the default layer goes before the defaults that are declared, and in
their place.

A topic's table is declared with ``update=Update.TOPIC``, a group's with ``Update.GROUP``, and read
on top of the server's tables: a setting that the topic does not have comes from its synonym there.

Owner: none; immutable, any thread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from itertools import dropwhile, product
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

from odradek.config.definition import (
    REQUIRED,
    Fallback,
    Layer,
    Setting,
    SettingError,
    Update,
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
from odradek.config.kinds import HIDDEN

#: Of tables that are read on top of a server's.
_OWN_LAYERS = {Update.TOPIC: Layer.TOPIC, Update.GROUP: Layer.GROUP}


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value written somewhere; a setting lists its own, the strongest first."""

    name: str
    text: str | None
    layer: Layer


@dataclass(frozen=True, slots=True)
class Description:
    """A setting as DescribeConfigs shows it; a secret has no text."""

    setting: Setting
    text: str | None
    layer: Layer
    synonyms: tuple[Synonym, ...]

    @property
    def read_only(self) -> bool:
        return self.setting.update is Update.READ_ONLY


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
    """The class holds the declarations, an instance their values at one moment."""

    by_name: ClassVar[Mapping[str, Setting]]
    attributes: ClassVar[Mapping[str, str]]

    _layers: Mapping[Layer, Mapping[str, str]]
    _server: tuple["Settings", ...]

    def __init_subclass__(cls, *, update: Update = Update.READ_ONLY) -> None:
        """``update`` is that of every setting in the table that states none."""
        for base in cls.__mro__[1:]:
            if _declared_in(base):
                raise TypeError(f"{cls.__name__} extends {base.__name__}, but a table stands alone")
        declared = _declared_in(cls)
        settings = [
            replace(setting, update=update) if setting.update is Update.READ_ONLY else setting
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
        """Values as Python has them, as if written in the file, or for the topic or group."""
        unknown = values.keys() - self.attributes.values()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        layers: dict[Layer, dict[str, str]] = {}
        for name, attribute in self.attributes.items():
            setting = self.by_name[name]
            if values.get(attribute) is not None:
                layer = _OWN_LAYERS.get(setting.update, Layer.FILE)
                layers.setdefault(layer, {})[name] = setting.write(values[attribute])
        self._fill(layers, ())

    @classmethod
    def read(
        cls, layers: Mapping[Layer, Mapping[str, str]], *, server: Sequence["Settings"] = ()
    ) -> Self:
        """Names unknown to this table are left alone: see ``unknown_names``."""
        table = cls.__new__(cls)
        table._fill(layers, server)
        return table

    def with_changes(self, changes: Mapping[str, str | None], *, layer: Layer) -> Self:
        """The table after a dynamic update; None removes what the layer says.

        All names must be of this table, or a change would be lost: other tables have their own.
        """
        texts = dict(self._layers.get(layer, {}))
        for name, written in changes.items():
            if name not in self.by_name:
                raise SettingError(name, None, f"is no setting of {type(self).__name__}")
            _check_changeable(self.by_name[name], written, layer)
            texts.pop(name, None)
            if written is not None:
                texts[name] = written
        return self.read({**self._layers, layer: texts}, server=self._server)

    def with_server(self, server: Sequence["Settings"]) -> Self:
        """The same topic after its server's settings changed."""
        return self.read(self._layers, server=server)

    def check(self) -> None:
        """For a table to extend: rules between its settings; raises SettingError."""

    def describe(self, name: str) -> Description:
        setting = self.by_name[name]
        synonyms = tuple(self._synonyms(setting))
        return Description(
            setting=setting,
            text=setting.shown(self._own_value(setting)),
            layer=synonyms[0].layer if synonyms else Layer.DEFAULT,
            synonyms=synonyms,
        )

    def _fill(
        self, layers: Mapping[Layer, Mapping[str, str]], server: Sequence["Settings"]
    ) -> None:
        state = self.__dict__
        state["_server"] = tuple(server)
        state["_layers"] = {
            layer: {name: layers[layer][name] for name in layers[layer] if name in self.by_name}
            for layer in Layer
            if layer in layers
        }
        self._check_texts()
        for name, attribute in self.attributes.items():
            state[attribute] = self._value(self.by_name[name])
        self.check()

    def _check_texts(self) -> None:
        # Also what a stronger layer hides, or removing that layer's text would fail much later.
        for texts in self._layers.values():
            for name, written in texts.items():
                self.by_name[name].parse(written)

    def _value(self, setting: Setting) -> Any:
        """The value in force.  A stronger layer counts for more than a name nearer in the chain."""
        chain = list(self._chain(setting))
        for texts, (link, times) in product(self._layers.values(), chain):
            if link.name in texts:
                return _converted(setting, link.parse(texts[link.name]), times)
        inherited = self._inherited_value(setting)
        if inherited is not None:
            return inherited
        link, times = chain[-1]
        if link.default is REQUIRED:
            raise SettingError(link.name, None, "must be given")
        return _converted(setting, link.default, times)

    def _own_value(self, setting: Setting) -> Any:
        """None where it is left to another setting of this table."""
        for texts in self._layers.values():
            if setting.name in texts:
                return setting.parse(texts[setting.name])
        inherited = self._inherited_value(setting)
        return setting.plain_default if inherited is None else inherited

    def _chain(self, setting: Setting, times: int = 1) -> Iterator[tuple[Setting, int]]:
        """The setting and those it falls back to, each with the factor that makes it the first."""
        yield setting, times
        if isinstance(setting.default, Fallback):
            link = self.by_name[setting.default.name]
            yield from self._chain(link, times * setting.default.times)

    def _inherited_value(self, setting: Setting) -> Any:
        for table, synonym in self._server_settings(setting):
            return getattr(table, table.attributes[synonym.name])
        return None

    def _server_settings(self, setting: Setting) -> Iterator[tuple["Settings", Setting]]:
        for table in self._server:
            synonym = table.by_name.get(setting.synonym or "")
            if synonym is not None:
                yield table, synonym

    def _synonyms(self, setting: Setting) -> Iterator[Synonym]:
        if setting.update is Update.TOPIC:
            return self._topic_synonyms(setting)
        if setting.update is Update.GROUP:
            return self._group_synonyms(setting)
        chain = [link for link, _ in self._chain(setting)]
        written = (
            Synonym(link.name, None if link.sensitive else texts[link.name], layer)
            for layer, texts in self._layers.items()
            for link in chain
            if link.name in texts
        )
        given = self._layers.get(Layer.DEFAULT, {})
        defaults = (
            Synonym(link.name, link.shown(link.plain_default), Layer.DEFAULT)
            for link in chain
            if link.plain_default is not None and link.name not in given
        )
        # Kafka lists nothing that stands before the first value of the setting's very own name.
        return dropwhile(lambda synonym: synonym.name != setting.name, (*written, *defaults))

    def _group_synonyms(self, setting: Setting) -> Iterator[Synonym]:
        """Only its own name: what the server has for all groups is told as if it were a default."""
        is_own = setting.name in self._layers.get(Layer.GROUP, {})
        layer = Layer.GROUP if is_own else Layer.DEFAULT
        yield Synonym(setting.name, setting.shown(self._own_value(setting)), layer)

    def _topic_synonyms(self, setting: Setting) -> Iterator[Synonym]:
        """A topic's own default is none of them: the server's stands in its place."""
        if setting.name in self._layers.get(Layer.TOPIC, {}):
            yield Synonym(setting.name, setting.shown(self._own_value(setting)), Layer.TOPIC)
        for table, synonym in self._server_settings(setting):
            yield from table._synonyms(synonym)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, attribute) for attribute in self.attributes.values())

    def __eq__(self, other: object) -> bool:
        """By the values in force, wherever they were written."""
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        changed = (
            f"{attribute}={value!r}"
            for (name, attribute), value in zip(
                self.attributes.items(), self._values(), strict=True
            )
            if value != self.by_name[name].plain_default
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__}.{attribute} cannot be assigned")

    def __delattr__(self, attribute: str) -> NoReturn:
        raise FrozenInstanceError(f"{type(self).__name__}.{attribute} cannot be deleted")


def unknown_names(names: Iterable[str], tables: Iterable[type[Settings]]) -> list[str]:
    """Those that none of the tables declares, in their order."""
    known = {name for table in tables for name in table.by_name}
    return [name for name in names if name not in known]


def _declared_in(cls: type) -> dict[str, Setting]:
    return {
        attribute: setting
        for attribute, setting in vars(cls).items()
        if isinstance(setting, Setting)
    }


def _converted(setting: Setting, value: Any, times: int) -> Any:
    if value is None:
        return None
    converted = value if times == 1 else value * times
    setting.check_value(converted)
    return converted


def _check_changeable(setting: Setting, written: str | None, layer: Layer) -> None:
    if layer not in setting.update.layers:
        shown = HIDDEN if setting.sensitive and written is not None else written
        rule = f"is {setting.update.word}: it cannot be changed for the {layer.name.lower()}"
        raise SettingError(setting.name, shown, rule)
