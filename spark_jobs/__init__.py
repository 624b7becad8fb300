"""Analytics over segment files, with no broker.

    scan/      the scanner and decoder below Spark: segment files as Arrow record batches
    contents/  what the records of internal topics mean

The Spark source and the jobs on it are to come.
"""
