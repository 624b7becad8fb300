"""The declaration language: the behaviour of a declared class itself."""

import copy
import pickle

import pytest

from odradek.protocol.field import LATEST, NO_VERSION, REQUIRED, Versions
from odradek.protocol.schema import (
    DEFAULTS,
    Message,
    Struct,
    array,
    byte_string,
    default_value,
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
    def test_version_range_survives_a_round_trip_through_text(self, text, versions):
        assert Versions.parse(text) == versions
        assert str(versions) == text

    @pytest.mark.parametrize("text", ["", "a", "-1", "1-", "+", "1 - 2", "1+2"])
    def test_malformed_version_range_is_rejected(self, text):
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
    def test_schema_has_the_declared_attributes(self):
        schema = Order.__schema__
        assert schema.name == "Order"
        assert schema.key == 99
        assert schema.versions == Versions(0, 3)
        assert schema.flexible == Versions(2, LATEST)
        assert schema.unstable == Versions(3, LATEST)

    def test_fields_keep_the_declaration_order(self):
        names = [field.name for field in Order.__schema__.fields]
        assert names == ["customer", "lines", "address", "id", "stamp", "parcel"]

    def test_nested_struct_has_a_qualified_name(self):
        assert Order.Line.__schema__.name == "Order.Line"

    def test_inner_struct_has_no_versions(self):
        assert Order.Line.__schema__.versions == NO_VERSION

    def test_instances_have_only_slots(self):
        assert not hasattr(order(), "__dict__")
        with pytest.raises(AttributeError):
            order().costumer = "a typing error"


class TestConstruction:
    def test_fields_with_a_default_are_optional(self):
        message = order()
        assert message.lines == []
        assert message.address == Order.Address()
        assert message.id == ZERO_UUID
        assert message.parcel is None
        assert message.unknown_tags == ()

    def test_field_without_a_default_is_required(self):
        with pytest.raises(TypeError, match="customer"):
            Order(stamp=b"")

    def test_undeclared_name_is_rejected(self):
        with pytest.raises(TypeError, match="costumer"):
            order(costumer="k")

    def test_fields_are_keyword_only(self):
        with pytest.raises(TypeError):
            Invoice("k")

    def test_first_instance_is_created_like_all_others(self):
        class Fresh(Struct):
            value: int = int32(default=3)

        assert [Fresh().value, Fresh().value, Fresh(value=4).value] == [3, 3, 4]

    def test_error_names_the_class(self):
        order()
        with pytest.raises(TypeError, match=r"Order\.__init__"):
            Order()

    def test_instances_do_not_share_default_lists(self):
        first, second = order(), order()
        first.lines.append(Order.Line(amount=1))
        assert second.lines == []

    def test_field_with_a_list_default_can_be_null(self):
        assert order(lines=None).lines is None


class TestAbsentValues:
    def test_missing_field_has_its_default_or_that_of_its_type(self):
        values = {field.name: default_value(field) for field in Order.__schema__.fields}
        assert values == {
            "customer": "",
            "lines": [],
            "address": Order.Address(),
            "id": ZERO_UUID,
            "stamp": b"",
            "parcel": None,
        }

    def test_default_list_is_new_each_time(self):
        lines = Order.__schema__.fields[1]
        assert default_value(lines) is not default_value(lines)

    def test_struct_without_a_default_has_the_defaults_of_its_fields(self):
        class Letter(Message, versions="0-1"):
            address: Order.Address = struct(Order.Address, "1")

        assert default_value(Letter.__schema__.fields[0]) == Order.Address()

    def test_repr_of_required(self):
        assert repr(REQUIRED) == "REQUIRED"


class TestSharedDefaults:
    def test_shared_default_cannot_be_changed(self):
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
    def test_list_of_a_shared_default_cannot_be_changed(self, change):
        with pytest.raises(AttributeError, match="this list belongs to a shared default"):
            change(Parcel().content.goods)
        assert Parcel().content.goods == []

    def test_shared_default_equals_a_new_struct(self):
        assert read_only_default(Order.Address) == Order.Address()
        assert Order.Address() == read_only_default(Order.Address)
        assert Parcel().content == Parcel.Content(goods=[])
        assert Parcel.Content(goods=[]) == Parcel().content

    def test_shared_default_can_be_replaced_by_a_new_struct(self):
        message = order()
        message.address = Order.Address(street="x")
        assert message.address.street == "x"
        assert order().address.street == ""

    def test_shared_default_stays_shared_through_pickling(self):
        assert pickle.loads(pickle.dumps(order())).address is order().address

    def test_shared_default_has_the_repr_of_a_new_struct(self):
        assert repr(order().address) == repr(Order.Address())


class TestValues:
    def test_messages_compare_by_field_values(self):
        assert order(lines=[Order.Line(amount=1)]) == order(lines=[Order.Line(amount=1)])
        assert order(lines=[Order.Line(amount=1)]) != order(lines=[Order.Line(amount=2)])

    def test_unknown_tags_count_for_equality(self):
        assert order(unknown_tags=((5, b"x"),)) != order()

    def test_messages_of_different_classes_are_not_equal(self):
        class Twin(Message, versions="0"):
            customer: str = string()

        assert Invoice(customer="k") != Twin(customer="k")
        assert Invoice(customer="k") != "k"

    def test_messages_are_not_hashable(self):
        with pytest.raises(TypeError, match="unhashable"):
            hash(order())

    def test_repr_is_the_constructor_call(self):
        assert repr(Invoice(customer="k")) == "Invoice(customer='k')"
        assert repr(Order.Line(amount=1)) == "Order.Line(amount=1, note=None)"

    def test_repr_shows_unknown_tags(self):
        text = repr(Invoice(customer="k", unknown_tags=((7, b"x"),)))
        assert text == "Invoice(customer='k', unknown_tags=((7, b'x'),))"

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_message_survives_pickling(self, protocol):
        message = order(
            lines=[Order.Line(amount=1, note="n")],
            address=Order.Address(street="s"),
            id=Uuid(bytes(range(16))),
            unknown_tags=((7, b"x"),),
        )
        assert pickle.loads(pickle.dumps(message, protocol)) == message

    def test_deep_copy_shares_no_list(self):
        message = order(lines=[Order.Line(amount=1)])
        copied = copy.deepcopy(message)
        copied.lines[0].amount = 2
        assert message.lines[0].amount == 1
