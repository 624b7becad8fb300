"""A source of numbers that filters what it is asked to, as Spark's documents say that it may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition, LessThan
from pyspark.sql.types import StructType

NUMBERS = 100


class Numbers(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "id int"

    def reader(self, schema: StructType) -> NumbersReader:
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def __init__(self) -> None:
        self._below = NUMBERS

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, LessThan):
                self._below = each.value
            else:
                yield each

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._below)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ((number,) for number in range(partition.value))
