"""What coordinators of groups and of transactions share: each keeps its state in an internal topic.

A coordinator decides, persists and applies.  Deciding is pure and may refuse; the records go to the
partition that the group or transactional id hashes to; applying cannot fail.  Whoever leads that
partition is the coordinator, and when leadership arrives, the state is made by applying what is in
the log: so what is known is what is in the log, always.

An append is in the log before anything is awaited, and is applied at once.  What waits is the
answer, until all replicas in sync have the records: nobody is told of what may still be lost.

    batches.py          records as the batch that is appended
    partition_log.py    one partition of an internal topic, as its coordinator writes it
    lone_records.py     batches of one record, read in a hurry
    replay.py           what a partition amounts to: its last records by key, and open transactions
    loading.py          becoming the coordinator of a partition, and ceasing to be
    partition_count.py  how many partitions the topic has
    lookup.py           which broker coordinates what
    log_failures.py     what clients are told when the log cannot be written
"""
