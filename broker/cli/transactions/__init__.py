"""``odradek transactions``: transactional ids, their transactions, and hanging transactions.

Kafka: kafka-transactions.

command.py       the verbs; list, describe and describe-producers
hanging.py       find-hanging and abort
lookup.py        fetches transactions and producer states from a cluster

A transaction hangs in a partition if the partition has records of it and its coordinator does not
know it.  No coordinator will end it, and read_committed consumers stop at its first record.  All
requests go over plaintext connections, since confluent-kafka has no function for them.
"""
