"""Analysis of segment files without a broker, in one process or with Spark.

    scan/                 scanner and decoder: segment files as Arrow record batches; no Spark
    internal_topics/      decoder of the records of internal topics; no Spark
    audit/                integrity audit of a partition; no Spark
    transfer/             export to Parquet files and restore from them; no Spark
    source/               Spark data source over the scanner, for batch and streaming queries
    job_runner/           arguments, session and outputs that all Spark jobs share
    running/              former name of job_runner/, for jobs that import it by that name

Each of the jobs is a command (``odradek spark JOB``):

    topic_stats.py        counts, bytes, rates, codecs, batch fill, sizes, key skew
    hot_keys.py           keys with the most records or bytes
    compaction_report.py  records that the log cleaner would remove
    timestamp_skew.py     late records and timestamps out of order
    consumer_lag.py       lag and commit history of consumer groups
    transaction_report.py open, long and aborted transactions
    integrity_audit.py    checks of batches, indexes, snapshots, epochs and replicas
    export.py             records to Parquet, by topic and date
    restore.py            an export back into topics, through a producer
"""
