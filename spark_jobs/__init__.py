"""Analytics over segment files, with no broker.

    scan/                 the scanner and decoder below Spark: segment files as Arrow record batches
    source/               the Spark data source over it, for tables and streams
    running/              what all Spark jobs share: arguments, session, outputs

The jobs, each of which can be run by itself:

    topic_stats.py        counts, bytes, rates, codecs, batch fill, sizes, key skew
    hot_keys.py           which keys have the most records or bytes
    compaction_report.py  what a cleaner would take away
    timestamp_skew.py     late records, and times out of order
"""
