"""What is in the nodes: the JSON that Kafka writes, both ways.

Each payload is a class with ``encode()`` and ``decode(value, node)``, where ``node`` says in a
refusal what could not be read: give it the path.  Written is what Kafka 3.9 writes, to the byte;
read are all versions before it, and later ones as far as they are the same.

    fields.py           a JSON object whose fields are read by name and type
    key_order.py        the order in which Kafka writes the keys of its maps
    broker.py           a broker's registration
    topic.py            a topic's id and replicas; a partition's leader and in-sync replicas
    controller.py       who the controller is, and its epoch
    config.py           a configuration, and the notice that one has changed
    notifications.py    in-sync replicas have changed; a log directory has failed
    admin.py            partitions to reassign, or to give back to their preferred leaders
    cluster.py          the cluster's id and features, the last block of producer ids
    partitions.py       partitions in a list, as some of these have them
    consumer_offset.py  an offset as the oldest consumers keep it

Fields at the top of a payload that this version does not know are kept in ``extra`` and written
again, after the known ones.  An entry of /admin/delete_topics and the parents of other nodes hold
nothing.

Owner: none; immutable, any thread.
"""
