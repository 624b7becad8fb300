"""The integrity audit below Spark: every file of a partition against its batches, and replicas.

    findings.py             what an audit finds
    directories.py          what is to be audited, and what checkpoints say must be there
    partition_audit.py      a partition: each replica by itself, then one against the other
    log_audit.py            one replica
    batch_rows.py           its batches: checksums, offsets, records
    index_checks.py         offset index and time index
    transaction_checks.py   transaction index
    producer_checks.py      producer snapshots
    epoch_checks.py         leader epoch checkpoint
    replica_checks.py       the batches of one replica against those of another

Needs numpy and pyarrow (extra ``arrow``), and no Spark.
"""
