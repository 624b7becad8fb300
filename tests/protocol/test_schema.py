"""The declaration language: what a declared class can do by itself."""

import copy
import pickle

import pytest

from odradek.protocol.field import LATEST, NO_VERSION, REQUIRED, Versions
from odradek.protocol.schema import (
    DEFAULTS,
    Message,
    Struct,
    absent_value,
    array,
    byte_string,
    int16,
    int32,
    read_only_default,
    record_batches,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class Order(Message, key=99, versions="0-3", flexible="2+", unstable="3+"):
    class Line(Struct):
        amount: int = int32()
        note: str | None = string(nullable="0+", default=None)

    class Address(Struct):
        street: str = string(default="")
        number: int = int16(default=-1)

    customer: str = string()
    lines: list[Line] = array(Line, default=[])
    address: Address = struct(Address, "1+", default=DEFAULTS)
    id: Uuid = uuid("2+", tag=0, default=ZERO_UUID)
    stamp: bytes = byte_string("0-1")
    parcel: bytes | None = record_batches(nullable="0+", default=None)


class Invoice(Message, versions="0"):
    customer: str = string()


class Parcel(Message, versions="0"):
    class Content(Struct):
        goods: list[str] = array(string)

    content: Content = struct(Content, default=DEFAULTS)


def order(**values):
    return Order(**{"customer": "k", "stamp": b"s", **values})


class TestVersions:
    @pytest.mark.parametrize(
        ("text", "versions"),
        [
            ("0+", Versions(0, LATEST)),
            ("3-12", Versions(3, 12)),
            ("7", Versions(7, 7)),
            ("none", NO_VERSION),
        ],
    )
    def test_text_and_range_are_two_forms_of_one(self, text, versions):
        assert Versions.parse(text) == versions
        assert str(versions) == text

    @pytest.mark.parametrize("text", ["", "a", "-1", "1-", "+", "1 - 2", "1+2"])
    def test_anything_else_is_no_range(self, text):
        with pytest.raises(ValueError, match="not a range of versions"):
            Versions.parse(text)

    def test_both_ends_belong_to_the_range(self):
        versions = Versions(2, 4)
        assert [version for version in range(7) if version in versions] == [2, 3, 4]

    def test_no_version_contains_none(self):
        assert not any(version in NO_VERSION for version in range(-2, 5))

    def test_only_numbers_are_versions(self):
        assert "2" not in Versions(0, 4)


class TestDeclaration:
    def test_a_schema_says_what_was_declared(self):
        schema = Order.__schema__
        assert schema.name == "Order"
        assert schema.key == 99
        assert schema.versions == Versions(0, 3)
        assert schema.flexible == Versions(2, LATEST)
        assert schema.unstable == Versions(3, LATEST)

    def test_fields_keep_the_order_of_the_page(self):
        names = [field.name for field in Order.__schema__.fields]
        assert names == ["customer", "lines", "address", "id", "stamp", "parcel"]

    def test_a_nested_struct_is_named_by_its_place(self):
        assert Order.Line.__schema__.name == "Order.Line"

    def test_a_struct_has_no_versions_of_its_own(self):
        assert Order.Line.__schema__.versions == NO_VERSION

    def test_instances_have_slots_and_nothing_else(self):
        assert not hasattr(order(), "__dict__")
        with pytest.raises(AttributeError):
            order().costumer = "a typing error"


class TestConstruction:
    def test_fields_with_a_default_may_be_left_out(self):
        made = order()
        assert made.lines == []
        assert made.address == Order.Address()
        assert made.id == ZERO_UUID
        assert made.parcel is None
        assert made.unknown_tags == ()

    def test_a_field_without_a_default_must_be_given(self):
        with pytest.raises(TypeError, match="customer"):
            Order(stamp=b"")

    def test_an_undeclared_name_is_refused(self):
        with pytest.raises(TypeError, match="costumer"):
            order(costumer="k")

    def test_fields_are_given_by_name_only(self):
        with pytest.raises(TypeError):
            Invoice("k")

    def test_the_first_instance_is_made_like_all_others(self):
        class Fresh(Struct):
            value: int = int32(default=3)

        assert [Fresh().value, Fresh().value, Fresh(value=4).value] == [3, 3, 4]

    def test_an_error_names_the_class(self):
        order()
        with pytest.raises(TypeError, match=r"Order\.__init__"):
            Order()

    def test_each_instance_has_a_list_of_its_own(self):
        first, second = order(), order()
        first.lines.append(Order.Line(amount=1))
        assert second.lines == []

    def test_null_may_be_given_where_the_default_is_a_list(self):
        assert order(lines=None).lines is None


class TestAbsentValues:
    def test_a_field_that_does_not_travel_holds_its_default_or_its_types(self):
        values = {field.name: absent_value(field) for field in Order.__schema__.fields}
        assert values == {
            "customer": "",
            "lines": [],
            "address": Order.Address(),
            "id": ZERO_UUID,
            "stamp": b"",
            "parcel": None,
        }

    def test_a_list_is_new_each_time(self):
        lines = Order.__schema__.fields[1]
        assert absent_value(lines) is not absent_value(lines)

    def test_a_struct_without_a_default_has_that_of_its_fields(self):
        class Letter(Message, versions="0-1"):
            address: Order.Address = struct(Order.Address, "1")

        assert absent_value(Letter.__schema__.fields[0]) == Order.Address()

    def test_required_says_so(self):
        assert repr(REQUIRED) == "REQUIRED"


class TestSharedDefaults:
    def test_a_shared_default_refuses_to_be_changed(self):
        with pytest.raises(AttributeError, match=r"street: this Order.Address is a shared default"):
            order().address.street = "x"

    @pytest.mark.parametrize(
        "change",
        [
            lambda goods: goods.append("x"),
            lambda goods: goods.extend(["x"]),
            lambda goods: goods.insert(0, "x"),
            lambda goods: goods.__iadd__(["x"]),
            lambda goods: goods.__setitem__(slice(0, 0), ["x"]),
        ],
    )
    def test_a_list_in_it_refuses_to_be_filled(self, change):
        with pytest.raises(AttributeError, match="this list belongs to a shared default"):
            change(Parcel().content.goods)
        assert Parcel().content.goods == []

    def test_it_equals_a_struct_made_by_hand(self):
        assert read_only_default(Order.Address) == Order.Address()
        assert Order.Address() == read_only_default(Order.Address)
        assert Parcel().content == Parcel.Content(goods=[])
        assert Parcel.Content(goods=[]) == Parcel().content

    def test_a_new_struct_may_be_assigned_instead(self):
        made = order()
        made.address = Order.Address(street="x")
        assert made.address.street == "x"
        assert order().address.street == ""

    def test_it_stays_the_shared_one_through_pickling(self):
        assert pickle.loads(pickle.dumps(order())).address is order().address

    def test_it_looks_like_any_other(self):
        assert repr(order().address) == repr(Order.Address())


class TestValues:
    def test_equal_when_every_field_is(self):
        assert order(lines=[Order.Line(amount=1)]) == order(lines=[Order.Line(amount=1)])
        assert order(lines=[Order.Line(amount=1)]) != order(lines=[Order.Line(amount=2)])

    def test_unknown_tags_count_for_equality(self):
        assert order(unknown_tags=((5, b"x"),)) != order()

    def test_another_class_with_the_same_fields_is_another_thing(self):
        class Twin(Message, versions="0"):
            customer: str = string()

        assert Invoice(customer="k") != Twin(customer="k")
        assert Invoice(customer="k") != "k"

    def test_mutable_and_therefore_not_hashable(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(order())

    def test_shown_as_it_would_be_written(self):
        assert repr(Invoice(customer="k")) == "Invoice(customer='k')"
        assert repr(Order.Line(amount=1)) == "Order.Line(amount=1, note=None)"

    def test_unknown_tags_are_shown_when_there_are_any(self):
        shown = repr(Invoice(customer="k", unknown_tags=((7, b"x"),)))
        assert shown == "Invoice(customer='k', unknown_tags=((7, b'x'),))"

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_pickled_and_back(self, protocol):
        made = order(
            lines=[Order.Line(amount=1, note="n")],
            address=Order.Address(street="s"),
            id=Uuid(bytes(range(16))),
            unknown_tags=((7, b"x"),),
        )
        assert pickle.loads(pickle.dumps(made, protocol)) == made

    def test_a_deep_copy_shares_no_list(self):
        made = order(lines=[Order.Line(amount=1)])
        copied = copy.deepcopy(made)
        copied.lines[0].amount = 2
        assert made.lines[0].amount == 1
