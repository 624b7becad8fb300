"""AlterClientQuotas (key 49): set or remove the quotas of users, clients and addresses.

    v0  introduced by KIP-546
    v1  first flexible version

An entity consists of parts of type ``user``, ``client-id`` or ``ip``; a null name is the default of
its type.  If ``remove`` is set, ``value`` is ignored.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, string


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    class Entry(Struct):
        class EntityPart(Struct):
            entity_type: str = string()
            entity_name: str | None = string(nullable="0+")

        class Operation(Struct):
            key: str = string()
            value: float = float64()
            remove: bool = boolean()

        entity: list[EntityPart] = array(EntityPart)
        ops: list[Operation] = array(Operation)

    entries: list[Entry] = array(Entry)
    validate_only: bool = boolean()


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    class Entry(Struct):
        class EntityPart(Struct):
            entity_type: str = string()
            entity_name: str | None = string(nullable="0+")

        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        entity: list[EntityPart] = array(EntityPart)

    throttle_time_ms: int = int32()
    entries: list[Entry] = array(Entry)
