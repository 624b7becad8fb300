"""Generates the source of the function that decodes one message in one version.

Consecutive fields of fixed width are read by one ``unpack_from``, together with the length prefix
of the next variable-length field.  Nested structs and arrays are generated inline. A message is
therefore one function without calls on its common path:

    def decode(buf, pos=0):
        size = len(buf)
        try:
            o = new(HeartbeatRequest)
            n = buf[pos]; pos += 1
            if n > 127: n, pos = rest_of_string_length(buf, pos, n)
            stop = pos + n - 1
            if n < 1 or stop > size: raise_invalid_length('group_id', n - 1, size - pos)
            o.group_id = buf[pos:stop].decode(); pos = stop
            o.generation_id, n, = unpack_iB(buf, pos); pos += 5
            ...
        except DECODE_FAILURES as error: raise_malformed_frame('HeartbeatRequest v4', error)
        if pos != size: raise_trailing_bytes('HeartbeatRequest v4', size - pos)
        return o

``buf`` is bytes. It is a memoryview if the message holds record data or other data may follow it.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Any

from odradek.protocol import wire
from odradek.protocol.field import (
    BYTES,
    INT32,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    Nested,
    Primitive,
    VariableLength,
)
from odradek.protocol.schema import Struct, default_value
from odradek.protocol.types import Uuid

RUNTIME: dict[str, Any] = {
    "join": b"".join,
    "new": object.__new__,
    "new_uuid": bytes.__new__,
    "Uuid": Uuid,
    "times": tuple(range(count) for count in range(128)),
    "times_compact": (range(0), *(range(count) for count in range(127))),
    **{name: getattr(wire, name) for name in (
        "rest_of_uvarint", "rest_of_string_length", "rest_of_long_length", "read_tag_count",
        "read_tag", "read_unknown_tags", "check_count", "raise_invalid_length",
        "raise_tag_size_mismatch", "raise_malformed_frame", "raise_trailing_bytes",
        "DECODE_FAILURES",
    )},
}  # fmt: skip


class DecoderSource:
    """The source of a decode function, and the namespace it runs in."""

    def __init__(self, cls: type[Struct], version: int, *, whole_frame: bool) -> None:
        schema = cls.__schema__
        self.namespace: dict[str, Any] = dict(RUNTIME)
        self._version = version
        self._flexible = version in schema.flexible
        # A prefix is also read in place: the data after it may be long and is not copied.
        self._in_place = not whole_frame or holds_records(cls)
        self._lines: list[str] = []
        self._functions: list[str] = []
        self._depth = 1
        self._pending_run: list[tuple[str, str]] = []  # struct code, target
        self._after_pending_run: list[str] = []
        self._write_function(cls, whole_frame)

    @property
    def text(self) -> str:
        return "\n".join([*self._functions, *self._lines]) + "\n"

    def _write_function(self, cls: type[Struct], whole_frame: bool) -> None:
        self._lines.append("def decode(buf, pos=0):")
        if self._in_place:
            self._write("if buf.__class__ is not memoryview: buf = memoryview(buf)")
        else:
            # Not bytes(buf): if buf were an int, that would allocate as many zeros.
            self._write("if buf.__class__ is not bytes: buf = join((buf,))")
        self._write("size = len(buf)")
        self._write("try:")
        self._depth += 1
        self._write_struct(cls, "o", "")
        self._depth -= 1
        title = f"{cls.__schema__.name} v{self._version}"
        self._write(f"except DECODE_FAILURES as error: raise_malformed_frame({title!r}, error)")
        if whole_frame:
            self._write(f"if pos != size: raise_trailing_bytes({title!r}, size - pos)")
        self._write("return o" if whole_frame else "return o, pos")

    def _write(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _add_constant(self, name: str, value: Any) -> str:
        self.namespace[name] = value
        return name

    # A struct: its fields in order, then its tags.

    def _write_struct(self, cls: type[Struct], target: str, path: str) -> None:
        class_name = self._add_constant(cls.__qualname__.replace(".", "_"), cls)
        self._write(f"{target} = new({class_name})")
        tagged = []
        for field in cls.__schema__.fields:
            field_path = f"{path}.{field.name}" if path else field.name
            if self._version not in field.versions:
                self._write_default(field, target, class_name)
            elif field.tag is not None:
                self._write_default(field, target, class_name)
                tagged.append((field, field_path))
            else:
                self._write_field(field, f"{target}.{field.name}", field_path)
        self._write(f"{target}.unknown_tags = ()")
        if self._flexible:
            self._write_tags(tagged, target, path)
        self._flush_run()

    def _write_default(self, field: Field, target: str, class_name: str) -> None:
        default = default_value(field)
        literal = (
            repr(default)
            if isinstance(default, (bool, int, str, bytes, list)) and not isinstance(default, Uuid)
            else "None"
            if default is None
            else self._add_constant(f"default_{class_name}_{field.name}", default)
        )
        self._write(f"{target}.{field.name} = {literal}")

    def _write_field(self, field: Field, target: str, path: str) -> None:
        nullable = self._version in field.nullable
        match field.type:
            case Primitive():
                self._add_fixed(field.type, target)
            case VariableLength():
                self._write_variable(field.type, target, path, nullable, field.compact)
            case Array():
                self._write_array(field.type, target, path, nullable)
            case Nested(struct) if nullable:
                self._write_nullable_struct(struct, target, path, field.tag is not None)
            case Nested(struct):
                self._write_inner_struct(struct, target, path)

    def _write_inner_struct(self, struct: type[Struct], target: str, path: str) -> None:
        inner = target.replace(".", "_")
        self._write_struct(struct, inner, path)
        self._write(f"{target} = {inner}")

    def _write_nullable_struct(
        self, struct: type[Struct], target: str, path: str, tagged: bool
    ) -> None:
        self._pending_run.append(("b", "present"))
        self._flush_run()
        # A null struct is -1, except in a tagged field, where Kafka reads a varint 0.
        self._write("if present == 0:" if tagged else "if present < 0:")
        self._write(f"    {target} = None")
        self._write("else:")
        self._depth += 1
        self._write_inner_struct(struct, target, path)
        self._depth -= 1

    # Fixed width: consecutive fields are collected into one unpack_from.

    def _add_fixed(self, primitive: Primitive, target: str) -> None:
        if primitive is UUID:
            raw = f"id{len(self._pending_run)}"
            self._pending_run.append(("16s", raw))
            self._after_pending_run.append(f"{target} = new_uuid(Uuid, {raw})")
        else:
            self._pending_run.append((primitive.code, target))

    def _flush_run(self) -> None:
        codes = [code for code, _ in self._pending_run]
        targets = [target for _, target in self._pending_run]
        if codes == ["B"]:
            self._write(f"{targets[0]} = buf[pos]; pos += 1")
        elif codes:
            layout = Layout(">" + "".join(codes))
            unpack = self._add_constant("unpack_" + _as_name(codes), layout.unpack_from)
            self._write(f"{', '.join(targets)}, = {unpack}(buf, pos); pos += {layout.size}")
        for line in self._after_pending_run:
            self._write(line)
        self._pending_run.clear()
        self._after_pending_run.clear()

    def _write_length(self, code: str, compact: bool, rest: str = "rest_of_uvarint") -> int:
        """Generate code that reads a length into ``n``; returns the ``n`` of length zero."""
        if not compact:
            self._pending_run.append((code, "n"))
            self._flush_run()
            return 0
        self._pending_run.append(("B", "n"))
        self._flush_run()
        if rest == "rest_of_records_length":
            self._write_long_length()
        else:
            self._write(f"if n > 127: n, pos = {rest}(buf, pos, n)")
        return 1

    def _write_long_length(self) -> None:
        """Read up to two more bytes inline: record data is nearly always longer than 127 bytes."""
        self._write("if n > 127:")
        self._write("    m = buf[pos]; pos += 1; n += (m - 1) << 7")
        self._write("    if m > 127:")
        self._write("        m = buf[pos]; pos += 1; n += (m - 1) << 14")
        self._write("        if m > 127: n, pos = rest_of_long_length(buf, pos, n)")

    # Strings, bytes, records.

    def _write_variable(
        self, wire_type: VariableLength, target: str, path: str, nullable: bool, compact: bool
    ) -> None:
        is_string = wire_type is STRING
        rest = REST_OF_LENGTH[wire_type]
        zero = self._write_length("h" if is_string else "i", compact and self._flexible, rest)
        if nullable:
            self._write(f"if n == {zero - 1}: {target} = None")
            self._write("else:")
            self._depth += 1
        length = "n - 1" if zero else "n"
        self._write(f"stop = pos + {length}")
        self._write(
            f"if n < {zero} or stop > size: raise_invalid_length({path!r}, {length}, size - pos)"
        )
        self._write(f"{target} = {self._slice(wire_type)}; pos = stop")
        if nullable:
            self._depth -= 1

    def _slice(self, wire_type: VariableLength) -> str:
        if wire_type is RECORDS:
            return "buf[pos:stop]"
        if wire_type is STRING:
            return "str(buf[pos:stop], 'utf-8')" if self._in_place else "buf[pos:stop].decode()"
        return "bytes(buf[pos:stop])" if self._in_place else "buf[pos:stop]"

    # Arrays.

    def _write_array(self, array: Array, target: str, path: str, nullable: bool) -> None:
        zero = self._write_length(INT32.code, self._flexible)
        count = "n - 1" if zero else "n"
        if nullable:
            self._write(f"if n == {zero - 1}: {target} = None")
            self._write("else:")
            self._depth += 1
        # A small count allocates nothing before its elements are read. Only a large count is
        # compared with the remaining bytes.
        self._write(
            f"if n > 127 or n < {zero}: "
            f"check_count({path!r}, {count}, {self._min_size_bytes(array.element)}, size - pos)"
        )
        if isinstance(array.element, Primitive):
            self._write_numbers(array.element, target, count)
        else:
            self._write_elements(array.element, target, path, count)
        if nullable:
            self._depth -= 1

    def _write_numbers(self, element: Primitive, target: str, count: str) -> None:
        table = self._add_constant(f"unpack_many_{element.code}", UNPACKERS[element.code])
        self._write(
            f"{target} = list({table}[{count}](buf, pos)); pos += ({count}) * {element.size}"
        )

    def _write_elements(
        self, element: VariableLength | Array | Nested, target: str, path: str, count: str
    ) -> None:
        items, item = f"items{self._depth}", f"o{self._depth}"
        self._write(f"{target} = {items} = []")
        # Creating a range takes longer than reading a small struct, so small ranges are shared.
        times = "times_compact" if self._flexible else "times"
        self._write(f"for _ in {times}[n] if n < 128 else range({count}):")
        self._depth += 1
        if isinstance(element, Nested):
            self._write_struct(element.struct, item, path)
        else:
            assert isinstance(element, VariableLength), "no API has an array of arrays"
            self._write_variable(element, item, path, False, True)
        self._write(f"{items}.append({item})")
        self._depth -= 1

    def _min_size_bytes(self, element: Any) -> int:
        """Return the minimum size of an element, for checking a count against the frame's size."""
        match element:
            case Primitive(size=size):
                return size
            case VariableLength():
                return 1 if self._flexible else 2 if element is STRING else 4
            case Array():
                return 1 if self._flexible else 4
            case Nested(struct):
                fields = struct.__schema__.fields
                present = [f for f in fields if self._version in f.versions and f.tag is None]
                sizes = [1 if self._version in f.nullable and isinstance(f.type, Nested)
                         else self._min_size_bytes(f.type) for f in present]  # fmt: skip
                return sum(sizes) + self._flexible
        raise AssertionError(element)

    # Tags: in separate functions, because the section is nearly always empty.

    def _write_tags(self, tagged: list[tuple[Field, str]], target: str, path: str) -> None:
        self._pending_run.append(("B", "n"))
        self._flush_run()
        if not tagged:
            self._write(f"if n: {target}.unknown_tags, pos = read_unknown_tags(buf, pos, n)")
            return
        function = "tags_of_" + (path.replace(".", "_") or "message")
        self._write(f"if n: pos = {function}(buf, pos, n, {target})")
        lines, depth = self._lines, self._depth
        self._lines, self._depth = [f"def {function}(buf, pos, n, o):"], 1
        self._write_tag_reader(tagged)
        self._functions += self._lines
        self._lines, self._depth = lines, depth

    def _write_tag_reader(self, tagged: list[tuple[Field, str]]) -> None:
        self._write("size = len(buf)")
        self._write("count, pos = read_tag_count(buf, pos, n)")
        self._write("unknown = []")
        self._write("for _ in range(count):")
        self._depth += 1
        self._write("tag, begin, end = read_tag(buf, pos)")
        self._write("pos = begin")
        branch = "if"
        for field, path in tagged:
            self._write(f"{branch} tag == {field.tag}:")
            self._depth += 1
            self._write_field(field, f"o.{field.name}", path)
            self._flush_run()
            self._write(
                f"if pos != end: raise_tag_size_mismatch({path!r}, end - begin, pos - begin)"
            )
            self._depth -= 1
            branch = "elif"
        self._write("else: unknown.append((tag, bytes(buf[pos:end]))); pos = end")
        self._depth -= 1
        self._write("o.unknown_tags = tuple(unknown)")
        self._write("return pos")


#: The function that reads the rest of a length whose first byte is above 127.
REST_OF_LENGTH = {
    STRING: "rest_of_string_length",
    BYTES: "rest_of_uvarint",
    RECORDS: "rest_of_records_length",
}
UNPACKERS = {code: wire.Unpackers(code) for code in "bhiqd"}


def _as_name(codes: list[str]) -> str:
    return "".join(codes).replace("?", "t")


def holds_records(cls: type[Struct]) -> bool:
    def inside(wire_type: Any) -> bool:
        match wire_type:
            case Array(element):
                return inside(element)
            case Nested(struct):
                return holds_records(struct)
        return wire_type is RECORDS

    return any(inside(field.type) for field in cls.__schema__.fields)
