"""Analytics over segment files, with no broker.

    scan/   the scanner and decoder below Spark: segment files as Arrow record batches

The Spark source and the jobs on it are to come.
"""
