"""Analytics over segment files, with no broker.

    scan/    the scanner and decoder below Spark: segment files as Arrow record batches
    source/  the Spark data source over it, for tables and streams

The jobs on it are to come.
"""
