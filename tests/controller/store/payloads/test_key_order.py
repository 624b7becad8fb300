"""The order in which Kafka writes the keys of its maps, compared with recorded orders."""

from odradek.controller.store.payloads.key_order import (
    order_like_java_properties,
    order_like_scala_mutable_map,
)


def mutable_map_order(count):
    return list(
        map(int, order_like_scala_mutable_map({str(number): None for number in range(count)}))
    )


def properties_order(count):
    ordered = order_like_java_properties({f"key.number.{number}": None for number in range(count)})
    return [int(key.rpartition(".")[2]) for key in ordered]


def test_eleven_partitions_are_in_numeric_order():
    assert mutable_map_order(11) == list(range(11))


def test_twelve_partitions_are_not_in_numeric_order():
    assert mutable_map_order(12) == [11, *range(11)]


def test_hash_table_doubles_when_three_quarters_full():
    assert mutable_map_order(24) == [22, 23, *range(10, 20), *range(10), 20, 21]


def test_keys_of_one_bucket_are_ordered_by_hash():
    expected = [88, 89, *range(110, 117), 90, 117, 91, 118, 92, 119, *range(93, 98), 10, 98, 11, 99]
    assert mutable_map_order(150)[:24] == expected


def test_mutable_map_order_does_not_depend_on_the_insertion_order():
    values = {str(number): number for number in range(200)}
    backwards = dict(reversed(values.items()))
    assert list(order_like_scala_mutable_map(values)) == list(
        order_like_scala_mutable_map(backwards)
    )
    assert order_like_scala_mutable_map(backwards) == values


def test_properties_are_ordered_by_bucket():
    assert properties_order(5) == [2, 3, 4, 0, 1]
    assert properties_order(11) == [2, 3, 4, 5, 0, 1, 6, 7, 8, 10, 9]
    assert properties_order(13) == [6, 12, 7, 11, 8, 10, 9, 2, 3, 4, 5, 0, 1]


def test_hash_is_computed_over_utf_16_units():
    assert list(order_like_java_properties({"😀": 1, "é": 2, "": 3})) == ["", "😀", "é"]
