"""Every message that the protocol package declares, and every version of each."""

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from odradek.protocol import api, header, internal
from odradek.protocol.schema import Message


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Requests, responses, headers and stored records, in the order of their names."""
    modules = [header, *_modules_of(api), *_modules_of(internal)]
    found = [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Message)
        and each.__module__ == module.__name__
    ]
    return tuple(sorted(found, key=lambda message: message.__name__))


def versions_of(message: type[Message]) -> range:
    low, high = message.__schema__.versions
    return range(low, high + 1)


def message_named(name: str) -> type[Message]:
    return _by_name()[name]


@cache
def _by_name() -> dict[str, type[Message]]:
    by_name = {message.__name__: message for message in all_messages()}
    assert len(by_name) == len(all_messages()), "two messages have one name"
    return by_name


def _modules_of(package: ModuleType) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
