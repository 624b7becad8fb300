"""Analytics over segment files, with no broker.

Below Spark:

    scan/       the scanner and decoder: segment files as Arrow record batches
    audit/      the integrity audit of a partition
    transfer/   exports as files of Parquet, and their way back through a producer

On Spark:

    source/     the Spark data source, for tables and streams
    running/    what all Spark jobs share: arguments, session, outputs

Jobs:

    integrity_audit.py   checksums, offsets, indexes against logs, replicas against replicas
    export.py            records to Parquet, by topic and date
    restore.py           such an export back into topics, through a producer
"""
