"""The declaration language for messages. Kafka: the JSON message definitions.

    class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
        throttle_time_ms: int = int32("1+", default=0, ignorable=True)
        error_code: int = int16()

The specifier of a field names its wire type and, as its first argument, the versions that contain
the field; the order in the class is the order on the wire.  In other versions the field has its
default.  ``flexible`` names the versions with compact lengths and a tag section at the end of every
struct.  The classes have slots and nothing else: ``compiler`` turns a declaration and a version
into functions.

Owner: none; declarations are created at import and never change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NoReturn, dataclass_transform

from odradek.protocol.field import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_VERSION,
    RECORDS,
    REQUIRED,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Array,
    Field,
    Nested,
    Primitive,
    Schema,
    VariableLength,
    Versions,
)


def int8(
    versions: str = "0+",
    *,
    default: int = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(INT8, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def int16(
    versions: str = "0+",
    *,
    default: int = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(INT16, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def uint16(versions: str = "0+", *, default: int = REQUIRED, ignorable: bool = False) -> Any:
    return Field(UINT16, Versions.parse(versions), default, ignorable=ignorable)


def int32(
    versions: str = "0+",
    *,
    default: int = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(INT32, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def uint32(versions: str = "0+", *, default: int = REQUIRED, ignorable: bool = False) -> Any:
    return Field(UINT32, Versions.parse(versions), default, ignorable=ignorable)


def int64(
    versions: str = "0+",
    *,
    default: int = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(INT64, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def float64(versions: str = "0+", *, default: float = REQUIRED, ignorable: bool = False) -> Any:
    return Field(FLOAT64, Versions.parse(versions), default, ignorable=ignorable)


def boolean(
    versions: str = "0+",
    *,
    default: bool = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(BOOL, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def uuid(
    versions: str = "0+",
    *,
    default: bytes = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(UUID, Versions.parse(versions), default, tag=tag, ignorable=ignorable)


def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    return Field(
        STRING,
        Versions.parse(versions),
        default,
        Versions.parse(nullable),
        tag=tag,
        ignorable=ignorable,
        compact=compact,
    )


def byte_string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: bytes | None = REQUIRED,
    ignorable: bool = False,
) -> Any:
    return Field(
        BYTES, Versions.parse(versions), default, Versions.parse(nullable), ignorable=ignorable
    )


def record_batches(
    versions: str = "0+", *, nullable: str = "none", default: None = REQUIRED
) -> Any:
    """Record data: decoded as a view of the frame, encoded from any buffer or a file region."""
    return Field(RECORDS, Versions.parse(versions), default, Versions.parse(nullable))


def array(
    element: type[Struct] | Callable[..., Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: list[Any] | None = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Elements of one type: ``array(int32)``, ``array(Partition)``."""
    wire_type = Nested(element) if isinstance(element, type) else element().type
    return Field(
        Array(wire_type),
        Versions.parse(versions),
        default,
        Versions.parse(nullable),
        tag=tag,
        ignorable=ignorable,
    )


def struct(
    nested: type[Struct],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = REQUIRED,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A nested struct.  ``default=DEFAULTS`` is the struct with all its defaults."""
    if default is DEFAULTS:
        default = read_only_default(nested)
    return Field(
        Nested(nested),
        Versions.parse(versions),
        default,
        Versions.parse(nullable),
        tag=tag,
        ignorable=ignorable,
    )


#: As the default of a struct field: all its fields have their defaults.
DEFAULTS: Any = object()


def _unknown_tags(*, default: tuple[tuple[int, bytes], ...]) -> Any:
    """Tagged fields of a newer peer, as tag and bytes. They are kept and encoded again."""
    return Field(BYTES, NO_VERSION, default)


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        int8, int16, uint16, int32, uint32, int64, float64, boolean, uuid, string, byte_string,
        record_batches, array, struct, _unknown_tags,
    ),
)  # fmt: skip
class StructMeta(type):
    """Creates a class with slots from annotated specifiers."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> StructMeta:
        fields = tuple(value for value in namespace.values() if isinstance(value, Field))
        for attribute in [key for key, value in namespace.items() if isinstance(value, Field)]:
            namespace.pop(attribute).name = attribute
        ranges = {key: Versions.parse(value) for key, value in options.items() if key != "key"}
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["__schema__"] = Schema(
            namespace["__qualname__"], fields, options.get("key"), **ranges
        )
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments)


class Struct(metaclass=StructMeta):
    """A group of fields.  Two instances of a class are equal if all fields are equal."""

    __schema__: ClassVar[Schema]
    unknown_tags: tuple[tuple[int, bytes], ...] = _unknown_tags(default=())

    def __init__(self, **values: Any) -> None:
        # The real constructor is generated on first use, which halves the import time of all APIs.
        cls = type(self)
        cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or self.__schema__ is not other.__schema__:
            return NotImplemented
        return all(
            getattr(self, field.name) == getattr(other, field.name)
            for field in self.__schema__.fields
        ) and (self.unknown_tags == other.unknown_tags)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = [f"{field.name}={getattr(self, field.name)!r}" for field in self.__schema__.fields]
        if self.unknown_tags:
            values.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{self.__schema__.name}({', '.join(values)})"


class Message(Struct):
    """A top-level struct: a request, a response, a header or a stored record."""


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"EMPTY": _EMPTY_LIST}
    parameters, body = [], ["self.unknown_tags = unknown_tags"]
    for field in cls.__schema__.fields:
        parameter, value = field.name, field.name
        if field.default is not REQUIRED and field.default == []:
            parameter, value = (
                f"{field.name}=EMPTY",
                f"[] if {field.name} is EMPTY else {field.name}",
            )
        elif field.default is not REQUIRED:
            names[f"default_{field.name}"] = field.default
            parameter = f"{field.name}=default_{field.name}"
        parameters.append(parameter)
        body.append(f"self.{field.name} = {value}")
    signature = ", ".join(["self", "*", *parameters, "unknown_tags=()"])
    exec(f"def __init__({signature}):\n    " + "\n    ".join(body), names)
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


_EMPTY_LIST = object()


def default_value(field: Field) -> Any:
    """Return the value in versions without the field; for an array, a new list each time."""
    if field.default is not REQUIRED and field.default != []:
        return field.default
    match field.type:
        case Array():
            return []
        case Nested(struct):
            declared: type[Struct] = struct
            return read_only_default(declared)
        case Primitive(default=default) | VariableLength(default=default):
            return default


@cache
def read_only_default(cls: type[Struct]) -> Struct:
    """Return the shared, read-only instance with all defaults; assign a new struct to change it."""
    values = {field.name: default_value(field) for field in cls.__schema__.fields}
    default = cls(
        **{name: _ReadOnlyList() if value == [] else value for name, value in values.items()}
    )
    default.__class__ = _read_only_subclass(cls)
    return default


class _ReadOnlyList(list[Any]):
    """The empty list of a shared default: it equals other empty lists but cannot be changed."""

    __slots__ = ()

    def _raise_read_only(self, *arguments: object) -> NoReturn:
        raise AttributeError("this list belongs to a shared default; assign a new struct")

    append = extend = insert = __iadd__ = __setitem__ = _raise_read_only


def _read_only_subclass(cls: type[Struct]) -> type[Struct]:
    def raise_read_only(self: Struct, name: str, value: object) -> None:
        raise AttributeError(
            f"{name}: this {cls.__qualname__} is a shared default; assign a new one"
        )

    namespace = {
        "__slots__": (),
        "__setattr__": raise_read_only,
        "__reduce__": lambda self: (read_only_default, (cls,)),
    }
    # type.__new__ instead of StructMeta: the subclass shares its base's schema, so that instances
    # of both compare equal.
    subclass: type[Any] = type.__new__(StructMeta, cls.__name__, (cls,), namespace)
    return subclass
