"""Analytics over segment files, with no broker.

scan/      the scanner and decoder below Spark: segment files as Arrow record batches
contents/  what the records of internal topics mean
source/    the Spark data source over it, for tables and streams
running/   what all Spark jobs share: arguments, session, outputs
"""
