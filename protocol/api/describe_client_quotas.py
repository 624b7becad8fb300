"""DescribeClientQuotas (key 48): read quotas."""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
)


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    class Component(Struct):
        entity_type: str = string()
        match_type: int = int8()
        match: str | None = string(nullable="0+")

    components: list[Component] = array(Component)
    strict: bool = boolean()


class DescribeClientQuotasResponse(Message, key=48, versions="0-1", flexible="1+"):
    class Entry(Struct):
        class EntityPart(Struct):
            entity_type: str = string()
            entity_name: str | None = string(nullable="0+")

        class Value(Struct):
            key: str = string()
            value: float = float64()

        entity: list[EntityPart] = array(EntityPart)
        values: list[Value] = array(Value)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[Entry] | None = array(Entry, nullable="0+")
