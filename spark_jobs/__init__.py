"""Analytics over segment files, with no broker.

scan/                 the scanner and decoder below Spark: segment files as Arrow record batches
running/              what all Spark jobs share: arguments, session, outputs
topic_stats.py        the job: counts, bytes, rates, codecs, batch fill, sizes, key skew
hot_keys.py           the job: which keys have the most records or bytes
compaction_report.py  the job: what a cleaner would take away
timestamp_skew.py     the job: late records, and times out of order
"""
