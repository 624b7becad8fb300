"""Generates the source of the function that encodes one message in one version.

Consecutive pieces of known width are written by one ``pack``: fields, the length prefix of the next
variable-length field if it fits one byte, whole arrays of numbers, and the empty tag section at the
end of a struct:

    def encode(o):
        parts = []; add = parts.append
        for o1 in o.partitions:
            v1 = o1.replicas; n1 = len(v1)
            if n1 < 127 and not o1.unknown_tags: add(pack_run_1[n1](o1.index, n1 + 1, *v1, 0))
            else: ...                                   the same, one piece at a time
        return [join(parts)]

If packing a wrong value raises anyway, no check is generated.  If the wrong value would pass
unnoticed, a check is generated.  In both cases ``encode_faults`` then finds the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct as Layout
from typing import Any

from odradek.protocol import wire
from odradek.protocol.buffers import is_contiguous_bytes
from odradek.protocol.decoder_source import holds_records
from odradek.protocol.field import (
    BOOL,
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
from odradek.protocol.varint import unsigned_varint

RUNTIME: dict[str, Any] = {
    "join": b"".join,
    **{name: getattr(wire, name) for name in (
        "AS_BIT", "RECORD_TYPES", "SINGLE_BYTES", "encode_string_length", "tag_section",
        "copy_unknown_tags", "raise_unsupported_field", "raise_wrong_type",
    )},
    "is_contiguous_bytes": is_contiguous_bytes,
    "unsigned_varint": unsigned_varint,
    "Uuid": Uuid,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run: how it is packed together with others, and how it is written separately."""

    code: str  # for struct; "{}" is a placeholder for a count
    arguments: str
    standalone: str  # an expression for its bytes if the run cannot be packed as a whole
    condition: str = ""  # under which it can be packed with the others
    count: str = ""  # the variable that replaces the "{}"


class EncoderSource:
    """The source of an encode function, and the namespace it runs in."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        self.namespace: dict[str, Any] = dict(RUNTIME)
        self._version = version
        self._flexible = version in cls.__schema__.flexible
        self._lines: list[str] = []
        self._functions: list[str] = []
        self._depth = 1
        self._pending_run: list[Piece] = []
        self._variable_count = 0
        self._write_function(cls, holds_records(cls))

    @property
    def text(self) -> str:
        return "\n".join([*self._functions, *self._lines]) + "\n"

    def _write_function(self, cls: type[Struct], has_records: bool) -> None:
        self._lines.append("def encode(o):")
        self._write("parts = []; add = parts.append")
        if has_records:
            self._write("buffers = []")
        self._write_struct(cls, "o", "")
        self._flush_run()
        if has_records:
            self._write("if parts: buffers.append(join(parts))")
            self._write("return buffers")
        else:
            self._write("return [join(parts)]")

    def _write(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _add_constant(self, name: str, value: Any) -> str:
        self.namespace[name] = value
        return name

    def _add_variable(self, expression: str) -> str:
        self._variable_count += 1
        self._write(f"v{self._variable_count} = {expression}")
        return f"v{self._variable_count}"

    # A struct: its fields in order, then its tags.

    def _write_struct(self, cls: type[Struct], source: str, path: str) -> None:
        tagged = []
        for field in cls.__schema__.fields:
            field_path = f"{path}.{field.name}" if path else field.name
            if self._version not in field.versions:
                self._write_absent(field, f"{source}.{field.name}", field_path)
            elif field.tag is not None:
                tagged.append((field, field_path))
            else:
                self._write_field(field, f"{source}.{field.name}", field_path)
        if self._flexible:
            self._write_tags(tagged, source, path)
        else:
            field_path = f"{path}.unknown_tags" if path else "unknown_tags"
            self._write(
                f"if {source}.unknown_tags: "
                f"raise_unsupported_field({field_path!r}, {self._version})"
            )

    def _write_absent(self, field: Field, source: str, path: str) -> None:
        if not field.ignorable:
            self._write(
                f"if {self._non_default_condition(field, source, path)}: "
                f"raise_unsupported_field({path!r}, {self._version})"
            )

    def _non_default_condition(self, field: Field, source: str, path: str) -> str:
        """Return an expression that is true if the field differs from its default."""
        default = default_value(field)
        if default is None:
            return f"{source} is not None"
        if default == []:
            return f"({source} or {source} is None)"
        name = self._add_constant("default_" + path.replace(".", "_"), default)
        if isinstance(default, Struct):
            return f"({source} is not {name} and {source} != {name})"
        return f"{source} != {name}"

    def _write_field(self, field: Field, source: str, path: str) -> None:
        nullable = self._version in field.nullable
        match field.type:
            case Primitive():
                self._write_primitive(field.type, source, path)
            case VariableLength():
                self._write_variable(
                    field.type, source, path, nullable=nullable, compact=field.compact
                )
            case Array():
                self._write_array(field.type, source, path, nullable)
            case Nested(struct) if nullable:
                self._write_nullable_struct(struct, source, path, field.tag is not None)
            case Nested(struct):
                self._write_struct(struct, self._add_variable(source), path)

    def _write_primitive(self, primitive: Primitive, source: str, path: str) -> None:
        if primitive is BOOL:
            # struct would accept any truthy or falsy value, including null.
            self._add_fixed("B", f"AS_BIT[{source}]")
        elif primitive is UUID:
            # struct would truncate or pad bytes of another length.
            self._write(f"if {source}.__class__ is not Uuid: raise_wrong_type({path!r})")
            self._add_fixed(primitive.code, source)
        else:
            self._add_fixed(primitive.code, source)

    def _write_nullable_struct(
        self, struct: type[Struct], source: str, path: str, tagged: bool
    ) -> None:
        self._flush_run()
        value = self._add_variable(source)
        null = "\\0" if tagged else "\\xff"
        self._write(f"if {value} is None: add(b'{null}')")
        self._write("else:")
        self._depth += 1
        self._add_fixed("b", "1")
        self._write_struct(struct, value, path)
        self._flush_run()
        self._depth -= 1

    # Runs: consecutive pieces that one pack writes.

    def _add_fixed(self, code: str, expression: str) -> None:
        pack = self._add_constant("pack_" + code, Layout(">" + code).pack)
        self._pending_run.append(Piece(code, expression, f"{pack}({expression})"))

    def _add_length(
        self, code: str, length: str, compact: bool, standalone_encoder: str = "unsigned_varint"
    ) -> None:
        """Add a length or count; a compact one is stored plus one, and zero means null."""
        if compact:
            self._pending_run.append(
                Piece("B", length, f"{standalone_encoder}({length})", f"{length} < 128")
            )
        else:
            self._add_fixed(code, length)

    def _flush_run(self) -> None:
        if not self._pending_run:
            return
        conditions = [piece.condition for piece in self._pending_run if piece.condition]
        packed = self._pack_expression()
        if conditions:
            self._write(f"if {' and '.join(conditions)}: {packed}")
            self._write(
                "else: " + "; ".join(f"add({piece.standalone})" for piece in self._pending_run)
            )
        else:
            self._write(packed)
        self._pending_run.clear()

    def _pack_expression(self) -> str:
        codes = "".join(piece.code for piece in self._pending_run)
        arguments = ", ".join(piece.arguments for piece in self._pending_run)
        counts = [piece.count for piece in self._pending_run if piece.count]
        if counts:
            table = self._add_constant(_as_name("pack_many_" + codes), wire.Packers(codes))
            return f"add({table}[{', '.join(counts)}]({arguments}))"
        if codes == "B":
            return "add(b'\\0')" if arguments == "0" else f"add(SINGLE_BYTES[{arguments}])"
        pack = self._add_constant(_as_name("pack_" + codes), Layout(">" + codes).pack)
        return f"add({pack}({arguments}))"

    # Strings, bytes, records.

    def _write_variable(
        self, wire_type: VariableLength, source: str, path: str, *, nullable: bool, compact: bool
    ) -> None:
        compact = compact and self._flexible
        is_string = wire_type is STRING
        value = self._add_variable(source)
        null_length = "0" if compact else "-1"
        length = f"len({value}) + 1" if compact else f"len({value})"
        if is_string and nullable:
            self._write(f"if {value} is not None: {value} = {value}.encode()")
        elif is_string:
            self._write(f"{value} = {value}.encode()")
        length = self._add_variable(
            f"{null_length} if {value} is None else {length}" if nullable else length
        )
        if is_string:
            self._add_length("h", length, compact, "encode_string_length")
        else:
            self._add_length("i", length, compact)
        self._flush_run()
        if not is_string:
            self._write_bytes_check(wire_type, value, path, nullable)
        if wire_type is RECORDS:
            self._write(
                f"if {length} > {int(compact)}: buffers += (join(parts), {value}); parts.clear()"
            )
        else:
            self._write(f"if {value}: add({value})" if nullable else f"add({value})")

    def _write_bytes_check(
        self, wire_type: VariableLength, value: str, path: str, nullable: bool
    ) -> None:
        """Generate a type check: join accepts any buffer, whatever its length counts."""
        unusual = f"{value}.__class__ is not bytes"
        if wire_type is RECORDS:
            unusual = f"{value}.__class__ not in RECORD_TYPES"
        elif nullable:
            unusual += f" and {value} is not None"
        self._write(
            f"if {unusual} and not is_contiguous_bytes({value}): raise_wrong_type({path!r})"
        )

    # Arrays.

    def _write_array(self, array: Array, source: str, path: str, nullable: bool) -> None:
        value = self._add_variable(source)
        compact_length = f"len({value}) + 1" if self._flexible else f"len({value})"
        null_length = "0" if self._flexible else "-1"
        if nullable:
            compact_length = f"{null_length} if {value} is None else {compact_length}"
        length = self._add_variable(compact_length)
        if nullable:
            self._write(f"if {value} is None: {value} = ()")
        self._add_length("i", length, self._flexible)
        if isinstance(array.element, Primitive):
            self._add_numbers(array.element, value)
        else:
            self._flush_run()
            self._write_elements(array.element, value, path)

    def _add_numbers(self, element: Primitive, value: str) -> None:
        assert element.code in "bhiqd", "no API has an array of ids or booleans"
        count = self._add_variable(f"len({value})")
        table = self._add_constant(f"pack_many_{element.code}", wire.Packers("{}" + element.code))
        self._pending_run.append(
            Piece("{}" + element.code, f"*{value}", f"{table}[{count}](*{value})", count=count)
        )

    def _write_elements(
        self, element: VariableLength | Array | Nested, value: str, path: str
    ) -> None:
        item = f"o{self._depth}"
        if element is STRING:
            # A string would be iterated as a sequence of strings.
            self._write(f"if {value}.__class__ is str: raise_wrong_type({path!r})")
        self._write(f"for {item} in {value}:")
        self._depth += 1
        if isinstance(element, Nested):
            self._write_struct(element.struct, item, path)
        else:
            assert isinstance(element, VariableLength), "no API has an array of arrays"
            self._write_variable(element, item, path, nullable=False, compact=True)
        self._flush_run()
        self._depth -= 1

    # Tags. The section is nearly always empty: then it is a zero byte at the end of a run.

    def _write_tags(self, tagged: list[tuple[Field, str]], source: str, path: str) -> None:
        differing = [
            self._non_default_condition(field, f"{source}.{field.name}", p) for field, p in tagged
        ]
        has_tags = " or ".join([f"{source}.unknown_tags", *differing])
        if not tagged:
            self._pending_run.append(
                Piece("B", "0", f"tag_section(list({source}.unknown_tags))", f"not {has_tags}")
            )
            return
        function = "tags_of_" + (path.replace(".", "_") or "message")
        self._pending_run.append(Piece("B", "0", f"{function}({source})", f"not ({has_tags})"))
        state = self._lines, self._depth, self._pending_run
        self._lines, self._depth, self._pending_run = [f"def {function}(o):"], 1, []
        self._write_tag_writer(tagged)
        self._functions += self._lines
        self._lines, self._depth, self._pending_run = state

    def _write_tag_writer(self, tagged: list[tuple[Field, str]]) -> None:
        numbers = ", ".join(str(field.tag) for field, _ in tagged)
        self._write(f"fields = copy_unknown_tags(o.unknown_tags, {{{numbers}}})")
        for field, path in tagged:
            self._write(f"if {self._non_default_condition(field, f'o.{field.name}', path)}:")
            self._depth += 1
            self._write("parts = []; add = parts.append")
            self._write_field(field, f"o.{field.name}", path)
            self._flush_run()
            self._write(f"fields.append(({field.tag}, join(parts)))")
            self._depth -= 1
        self._write("return tag_section(fields)")


def _as_name(codes: str) -> str:
    return codes.replace("{}", "N").replace("?", "t")
