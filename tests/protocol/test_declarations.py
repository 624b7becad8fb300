"""Rules that hold for every declaration, so that a slip of the pen is noticed."""

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
from odradek.protocol.schema import Struct, absent_value, read_only_default
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_values import defaults
from tests.support.messages import structs_of

MESSAGES = all_messages()
STRUCTS = {struct for each in MESSAGES for struct in structs_of(each)}
FIELD_NAMES = {field.name for struct in STRUCTS for field in struct.__schema__.fields}
APIS = sorted({each.__schema__.key for each in MESSAGES} - {None})


@dataclass(frozen=True)
class Place:
    """A field where it stands in a message; ``around`` are the versions of the struct it is in."""

    path: str
    field: Field
    around: Versions
    flexible: Versions

    @property
    def travels(self) -> Versions:
        return common(self.around, self.field.versions)


def common(first, second):
    low, high = max(first.low, second.low), min(first.high, second.high)
    return Versions(low, high) if low <= high else NO_VERSION


def inner_struct(field):
    inner = field.type.element if isinstance(field.type, Array) else field.type
    return inner.struct if isinstance(inner, Nested) else None


def places_in(struct, around, flexible, path):
    for field in struct.__schema__.fields:
        place = Place(f"{path}.{field.name}", field, around, flexible)
        yield place
        inner = inner_struct(field)
        if inner is not None:
            yield from places_in(inner, place.travels, flexible, place.path)


def places_of(message):
    declared = message.__schema__
    return list(places_in(message, declared.versions, declared.flexible, message.__name__))


ALL_PLACES = list(chain.from_iterable(map(places_of, MESSAGES)))


def paths(places):
    return [place.path for place in places]


class TestVersions:
    def test_every_message_has_a_range_with_two_ends(self):
        for message in MESSAGES:
            low, high = message.__schema__.versions
            assert 0 <= low <= high < 100, message

    def test_flexible_versions_run_from_one_of_the_message_to_its_last(self):
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
    def test_a_request_and_its_response_have_the_same_versions(self, key):
        request, response = (each.__schema__ for each in MESSAGES if each.__schema__.key == key)
        assert request.name.removesuffix("Request") == response.name.removesuffix("Response")
        assert request.versions == response.versions
        assert request.flexible == response.flexible
        assert response.unstable == NO_VERSION, "the request says it for both"

    def test_only_messages_of_an_api_have_a_key(self):
        for message in MESSAGES:
            in_api = message.__module__.startswith(f"{api.__name__}.")
            assert (message.__schema__.key is not None) == in_api, message

    def test_inner_structs_leave_versions_to_their_message(self):
        inner = [each for each in STRUCTS if each not in MESSAGES]
        assert {each.__schema__.versions for each in inner} == {NO_VERSION}

    def test_a_field_travels_in_some_version_of_some_place(self):
        travelling = {id(place.field) for place in ALL_PLACES if place.travels != NO_VERSION}
        assert paths(each for each in ALL_PLACES if id(each.field) not in travelling) == []


class TestDefaults:
    def test_a_field_that_a_version_lacks_states_its_default(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.default is REQUIRED and place.travels != place.around
        )

    def test_a_tagged_field_states_its_default(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.tag is not None and place.field.default is REQUIRED
        )

    def test_null_is_a_default_only_where_the_field_may_be_null(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.default is None
            and common(place.travels, place.field.nullable) != place.travels
        )

    def test_a_shared_default_holds_nothing_that_somebody_could_change(self):
        shared = {inner_struct(p.field) for p in ALL_PLACES if isinstance(p.field.default, Struct)}
        for struct in chain.from_iterable(map(structs_of, shared)):
            default = read_only_default(struct)
            for field in struct.__schema__.fields:
                with pytest.raises(AttributeError, match="shared default"):
                    setattr(default, field.name, 1)
                if isinstance(field.type, Array):
                    with pytest.raises(AttributeError, match="shared default"):
                        getattr(default, field.name).append(1)

    @pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
    def test_all_defaults_can_be_written_in_every_version(self, message):
        for version in versions_of(message):
            made = defaults(message)
            for field in message.__schema__.fields:
                if field.type is RECORDS or absent_value(field) is not None:
                    continue
                assert version in field.nullable or version not in field.versions, field.name
            assert decode(message, version, encode_bytes(made, version)) == made


class TestNulls:
    def test_what_may_be_null_may_be_so_in_a_version_in_which_it_travels(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.nullable != NO_VERSION
            and place.travels != NO_VERSION
            and common(place.travels, place.field.nullable) == NO_VERSION
        )

    def test_what_may_be_null_once_may_be_so_ever_after(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.nullable != NO_VERSION and place.field.nullable.high < place.travels.high
        )

    def test_records_may_always_be_null(self):
        records = [place for place in ALL_PLACES if place.field.type is RECORDS]
        assert records
        for place in records:
            assert common(place.travels, place.field.nullable) == place.travels, place.path


class TestTags:
    def test_tags_stand_only_in_flexible_versions(self):
        assert not paths(
            place
            for place in ALL_PLACES
            if place.field.tag is not None
            and common(place.travels, place.flexible) != place.travels
        )

    def test_the_tags_of_a_struct_are_numbered_from_zero_without_a_gap(self):
        for struct in STRUCTS:
            tags = [field.tag for field in struct.__schema__.fields if field.tag is not None]
            assert sorted(tags) == list(range(len(tags))), struct


class TestArrays:
    def test_an_element_takes_at_least_a_byte_so_that_a_count_can_be_checked(self):
        for place in ALL_PLACES:
            struct = inner_struct(place.field)
            if struct is None or not isinstance(place.field.type, Array):
                continue
            for version in range(place.travels.low, place.travels.high + 1):
                travelling = [
                    field
                    for field in struct.__schema__.fields
                    if version in field.versions and field.tag is None
                ]
                assert travelling or version in place.flexible, (place.path, version)


class TestNames:
    def test_no_field_shadows_a_specifier_or_a_word_of_the_language(self):
        specifiers = {name for name, value in vars(schema).items() if callable(value)}
        for name in FIELD_NAMES:
            assert name not in specifiers
            assert not keyword.iskeyword(name)
            assert not hasattr(Struct, name)

    def test_fields_are_written_in_lower_case_with_underscores(self):
        for name in FIELD_NAMES:
            assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)

    def test_paths_stay_apart_when_dots_become_underscores(self):
        counts = Counter(path.replace(".", "_") for path in paths(ALL_PLACES))
        assert [path for path, count in counts.items() if count > 1] == []

    @pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
    def test_a_struct_is_declared_inside_its_message_or_before_it_to_be_shared(self, message):
        for struct in structs_of(message):
            assert struct.__module__ == message.__module__
            first, *inner = struct.__qualname__.split(".")
            assert first == message.__name__ or not inner


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_what_a_version_lacks_it_carries_only_if_that_may_be_ignored(message):
    for version, field in product(versions_of(message), message.__schema__.fields):
        if version in field.versions or field.ignorable:
            continue
        made = defaults(message)
        setattr(made, field.name, object())
        with pytest.raises(EncodeError, match=f": {field.name}: version {version} cannot carry"):
            encode(made, version)
