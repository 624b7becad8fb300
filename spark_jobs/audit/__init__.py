"""Integrity audit of partitions, without Spark: every file is compared with the batches.

    findings.py             findings of an audit
    directories.py          the audit plan: partitions, replicas, and offsets by checkpoint
    partition_audit.py      audit of a partition: each replica, then the replicas with each other
    log_audit.py            audit of one replica
    batch_rows.py           batches of a replica: checksums, offsets, records
    index_checks.py         offset index and time index
    transaction_checks.py   transaction index
    producer_checks.py      producer snapshots
    epoch_checks.py         leader epoch checkpoint
    replica_checks.py       comparison of the batches of several replicas

The package needs numpy and pyarrow (extra ``arrow``), but not Spark.
"""
