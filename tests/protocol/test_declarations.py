"""Rules that every message declaration must follow, to detect mistakes in the schemas."""

import keyword
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain, product

import pytest

from odradek.protocol import api, schema
from odradek.protocol.codec import decode, encode, encode_bytes
from odradek.protocol.errors import EncodeError
from odradek.protocol.field import NO_VERSION, RECORDS, REQUIRED, Array, Field, Nested, Versions
from odradek.protocol.schema import Struct, default_value, read_only_default
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_values import defaults
from tests.support.messages import structs_of

MESSAGES = all_messages()
STRUCTS = {struct for each in MESSAGES for struct in structs_of(each)}
FIELD_NAMES = {field.name for struct in STRUCTS for field in struct.__schema__.fields}
APIS = sorted({each.__schema__.key for each in MESSAGES} - {None})


@dataclass(frozen=True)
class DeclaredField:
    """A field of a message, with the versions of the struct that contains it."""

    path: str
    field: Field
    struct_versions: Versions
    flexible: Versions

    @property
    def effective_versions(self) -> Versions:
        return common(self.struct_versions, self.field.versions)


def common(first, second):
    low, high = max(first.low, second.low), min(first.high, second.high)
    return Versions(low, high) if low <= high else NO_VERSION


def inner_struct(field):
    inner = field.type.element if isinstance(field.type, Array) else field.type
    return inner.struct if isinstance(inner, Nested) else None


def fields_in(struct, struct_versions, flexible, path):
    for field in struct.__schema__.fields:
        declared_field = DeclaredField(f"{path}.{field.name}", field, struct_versions, flexible)
        yield declared_field
        inner = inner_struct(field)
        if inner is not None:
            yield from fields_in(
                inner, declared_field.effective_versions, flexible, declared_field.path
            )


def fields_of(message):
    declared = message.__schema__
    return list(fields_in(message, declared.versions, declared.flexible, message.__name__))


ALL_FIELDS = list(chain.from_iterable(map(fields_of, MESSAGES)))


def paths(fields):
    return [declared_field.path for declared_field in fields]


class TestVersions:
    def test_every_message_has_a_bounded_version_range(self):
        for message in MESSAGES:
            low, high = message.__schema__.versions
            assert 0 <= low <= high < 100, message

    def test_flexible_versions_extend_to_the_last_version(self):
        for message in MESSAGES:
            declared = message.__schema__
            if declared.flexible != NO_VERSION:
                assert declared.flexible.low in declared.versions, message
                assert declared.flexible.high >= declared.versions.high, message

    def test_unstable_versions_are_the_last_ones(self):
        for message in MESSAGES:
            declared = message.__schema__
            if declared.unstable != NO_VERSION:
                assert declared.unstable.low in declared.versions, message
                assert declared.unstable.high >= declared.versions.high, message

    @pytest.mark.parametrize("key", APIS)
    def test_request_and_response_have_the_same_versions(self, key):
        request, response = (each.__schema__ for each in MESSAGES if each.__schema__.key == key)
        assert request.name.removesuffix("Request") == response.name.removesuffix("Response")
        assert request.versions == response.versions
        assert request.flexible == response.flexible
        assert response.unstable == NO_VERSION, "the request says it for both"

    def test_only_messages_of_an_api_have_a_key(self):
        for message in MESSAGES:
            in_api = message.__module__.startswith(f"{api.__name__}.")
            assert (message.__schema__.key is not None) == in_api, message

    def test_inner_structs_have_no_versions(self):
        inner = [each for each in STRUCTS if each not in MESSAGES]
        assert {each.__schema__.versions for each in inner} == {NO_VERSION}

    def test_every_field_is_present_in_some_version(self):
        present = {
            id(declared.field)
            for declared in ALL_FIELDS
            if declared.effective_versions != NO_VERSION
        }
        assert paths(each for each in ALL_FIELDS if id(each.field) not in present) == []


class TestDefaults:
    def test_field_missing_from_a_version_has_a_default(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.default is REQUIRED
            and declared_field.effective_versions != declared_field.struct_versions
        )

    def test_tagged_field_has_a_default(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.tag is not None and declared_field.field.default is REQUIRED
        )

    def test_null_default_requires_a_nullable_field(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.default is None
            and common(declared_field.effective_versions, declared_field.field.nullable)
            != declared_field.effective_versions
        )

    def test_shared_default_is_immutable(self):
        shared = {inner_struct(p.field) for p in ALL_FIELDS if isinstance(p.field.default, Struct)}
        for struct in chain.from_iterable(map(structs_of, shared)):
            default = read_only_default(struct)
            for field in struct.__schema__.fields:
                with pytest.raises(AttributeError, match="shared default"):
                    setattr(default, field.name, 1)
                if isinstance(field.type, Array):
                    with pytest.raises(AttributeError, match="shared default"):
                        getattr(default, field.name).append(1)

    @pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
    def test_all_defaults_can_be_encoded_in_every_version(self, message):
        for version in versions_of(message):
            value = defaults(message)
            for field in message.__schema__.fields:
                if field.type is RECORDS or default_value(field) is not None:
                    continue
                assert version in field.nullable or version not in field.versions, field.name
            assert decode(message, version, encode_bytes(value, version)) == value


class TestNulls:
    def test_nullable_versions_overlap_the_versions_of_the_field(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.nullable != NO_VERSION
            and declared_field.effective_versions != NO_VERSION
            and common(declared_field.effective_versions, declared_field.field.nullable)
            == NO_VERSION
        )

    def test_nullable_field_stays_nullable_in_later_versions(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.nullable != NO_VERSION
            and declared_field.field.nullable.high < declared_field.effective_versions.high
        )

    def test_records_are_always_nullable(self):
        records = [
            declared_field for declared_field in ALL_FIELDS if declared_field.field.type is RECORDS
        ]
        assert records
        for declared_field in records:
            assert (
                common(declared_field.effective_versions, declared_field.field.nullable)
                == declared_field.effective_versions
            ), declared_field.path


class TestTags:
    def test_tagged_fields_are_only_in_flexible_versions(self):
        assert not paths(
            declared_field
            for declared_field in ALL_FIELDS
            if declared_field.field.tag is not None
            and common(declared_field.effective_versions, declared_field.flexible)
            != declared_field.effective_versions
        )

    def test_tags_of_a_struct_are_numbered_from_zero_without_a_gap(self):
        for struct in STRUCTS:
            tags = [field.tag for field in struct.__schema__.fields if field.tag is not None]
            assert sorted(tags) == list(range(len(tags))), struct


class TestArrays:
    def test_array_element_takes_at_least_one_byte(self):
        for declared_field in ALL_FIELDS:
            struct = inner_struct(declared_field.field)
            if struct is None or not isinstance(declared_field.field.type, Array):
                continue
            for version in range(
                declared_field.effective_versions.low, declared_field.effective_versions.high + 1
            ):
                encoded_fields = [
                    field
                    for field in struct.__schema__.fields
                    if version in field.versions and field.tag is None
                ]
                assert encoded_fields or version in declared_field.flexible, (
                    declared_field.path,
                    version,
                )


class TestNames:
    def test_no_field_name_shadows_a_specifier_or_a_python_keyword(self):
        specifiers = {name for name, value in vars(schema).items() if callable(value)}
        for name in FIELD_NAMES:
            assert name not in specifiers
            assert not keyword.iskeyword(name)
            assert not hasattr(Struct, name)

    def test_fields_are_written_in_lower_case_with_underscores(self):
        for name in FIELD_NAMES:
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)

    def test_paths_are_unique_when_dots_become_underscores(self):
        counts = Counter(path.replace(".", "_") for path in paths(ALL_FIELDS))
        assert [path for path, count in counts.items() if count > 1] == []

    @pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
    def test_struct_is_declared_inside_its_message_or_before_it(self, message):
        for struct in structs_of(message):
            assert struct.__module__ == message.__module__
            first, *inner = struct.__qualname__.split(".")
            assert first == message.__name__ or not inner


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_value_in_a_field_that_the_version_lacks_is_rejected_unless_ignorable(message):
    for version, field in product(versions_of(message), message.__schema__.fields):
        if version in field.versions or field.ignorable:
            continue
        value = defaults(message)
        setattr(value, field.name, object())
        with pytest.raises(EncodeError, match=f": {field.name}: version {version} cannot carry"):
            encode(value, version)
