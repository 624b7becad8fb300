"""DescribeClientQuotas (key 48): list the quotas of users, clients and addresses.

    v0  introduced by KIP-546
    v1  first flexible version

``match_type``: 0 the name in ``match``, 1 the default (null) name, 2 any given name.  ``strict``
excludes entities with parts that no component mentions.
"""

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
