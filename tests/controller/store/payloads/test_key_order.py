"""The order in which Kafka writes the keys of its maps; the expected orders are Kafka's own."""

from odradek.controller.store.payloads.key_order import like_mutable_map, like_properties


def mutable_map_of(count):
    return list(map(int, like_mutable_map({str(number): None for number in range(count)})))


def properties_of(count):
    ordered = like_properties({f"key.number.{number}": None for number in range(count)})
    return [int(key.rpartition(".")[2]) for key in ordered]


def test_eleven_partitions_come_in_their_own_order():
    assert mutable_map_of(11) == list(range(11))


def test_twelve_partitions_do_not():
    assert mutable_map_of(12) == [11, *range(11)]


def test_the_table_is_doubled_when_it_is_three_quarters_full():
    assert mutable_map_of(24) == [22, 23, *range(10, 20), *range(10), 20, 21]


def test_keys_of_one_bucket_come_by_their_hash():
    expected = [88, 89, *range(110, 117), 90, 117, 91, 118, 92, 119, *range(93, 98), 10, 98, 11, 99]
    assert mutable_map_of(150)[:24] == expected


def test_the_order_of_a_mutable_map_does_not_depend_on_the_one_given():
    given = {str(number): number for number in range(200)}
    backwards = dict(reversed(given.items()))
    assert list(like_mutable_map(given)) == list(like_mutable_map(backwards))
    assert like_mutable_map(backwards) == given


def test_properties_come_by_bucket():
    assert properties_of(5) == [2, 3, 4, 0, 1]
    assert properties_of(11) == [2, 3, 4, 5, 0, 1, 6, 7, 8, 10, 9]
    assert properties_of(13) == [6, 12, 7, 11, 8, 10, 9, 2, 3, 4, 5, 0, 1]


def test_hashes_are_of_utf_16_units():
    assert list(like_properties({"😀": 1, "é": 2, "": 3})) == ["", "😀", "é"]
