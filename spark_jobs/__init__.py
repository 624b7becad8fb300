"""Analytics over segment files, with no broker.

    scan/                 the scanner and decoder below Spark: segment files as Arrow record batches
    contents/             what the records of internal topics mean
    audit/                the integrity audit of a partition, below Spark
    transfer/             exports as files of Parquet, and their way back, below Spark
    source/               the Spark data source over the scanner, for tables and streams
    running/              what all Spark jobs share: arguments, session, outputs

The jobs, each of which can be run by itself:

    topic_stats.py        counts, bytes, rates, codecs, batch fill, sizes, key skew
    hot_keys.py           which keys have the most records or bytes
    compaction_report.py  what a cleaner would take away
    timestamp_skew.py     late records, and times out of order
    consumer_lag.py       how far groups have read, and when they said so
    transaction_report.py open, long and aborted transactions
    integrity_audit.py    checksums, offsets, indexes against logs, replicas against replicas
    export.py             records to Parquet, by topic and date
    restore.py            an export back into topics, through a producer
"""
