"""Analytics over segment files, with no broker.

scan/     the scanner and decoder below Spark: segment files as Arrow record batches
running/  what all Spark jobs share: arguments, session, outputs
"""
