"""The JSON values of the znodes, encoded and decoded.  Kafka: ZkData.scala.

Each payload is a class with ``encode()`` and ``decode(value, path)``.  The path of the znode is for
error messages.  ``encode`` writes exactly the bytes that Kafka 3.9 writes; ``decode`` reads all
earlier versions, and later versions as far as they are compatible.

    json_object.py      a JSON object with typed access to its fields
    key_order.py        the order in which Kafka writes the keys of its maps
    broker.py           the registration of a broker
    topic.py            topic id and replica assignment; leader and ISR of a partition
    controller.py       the registration of the controller; the controller epoch
    config.py           the configuration of an entity; the notification of its change
    notifications.py    ISR change notifications; log directory events
    admin.py            partition reassignments; preferred replica elections
    cluster.py          the cluster id, the finalized features, the last block of producer ids
    partitions.py       lists of partitions, shared by several payloads
    consumer_offset.py  an offset of a consumer older than 0.9

Unknown fields at the top level of a payload are kept in ``extra`` and written again, after the
known ones.  The znodes in /admin/delete_topics, and znodes that are only parents, have no value.

Owner: none; immutable, any thread.
"""
