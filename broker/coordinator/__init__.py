"""The runtime that the group coordinator and the transaction coordinator share.

Kafka: CoordinatorRuntime, CoordinatorLoader and CoordinatorPartitionWriter, and the parts of
GroupMetadataManager and TransactionStateManager that append to and load the internal topics.

Each coordinator keeps its state in an internal topic.  A coordinator decides, persists and applies.
Deciding is pure and may reject the request.  Persisting appends the records to the partition that
the group id or transactional id hashes to.  Applying cannot fail.  The leader of that partition is
the coordinator.  When a broker becomes the leader, it builds the state by applying the records of
the log, so the state in memory always equals the state in the log.

Records are appended before anything is awaited, and they are applied at once.  Only the response
waits, until all in-sync replicas have the records: no client learns of a change that may be lost.

    batches.py                builds the batch that is appended
    partition_log.py          appends to and reads one partition of an internal topic
    single_record_batch.py    fast reader for batches of one record
    replay.py                 reduces a log to its last record by key and its open transactions
    runtime.py                loads and unloads the coordinator state of each partition
    partition_count_cache.py  the partition count of an internal topic
    lookup.py                 finds the coordinator of a group or transactional id
    append_errors.py          maps append errors to the errors that clients receive
"""
