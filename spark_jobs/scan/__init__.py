"""The scanner reads segment files, Kafka's or ours, into Arrow record batches without a broker.

    scanner.py            the entry points: options in, record batches out
    options.py            the options of a scan, named as in Spark's own Kafka source
    columns.py            the available columns and their Arrow types

Finding the data before any of it is read:

    file_access.py        local files, and files that pyarrow or fsspec opens
    catalog.py            the partitions in log directories, their segments and checkpoints
    indexes.py            index files that may be damaged
    lookup.py             the position in a segment of an offset or a timestamp
    end_offsets.py        the end offset of each log
    transactions.py       aborted transactions and the last stable offset
    plan.py               splits: parts of segments that can be read independently

Reading a split:

    segment_reader.py     batches with valid checksums, about 8 MB at a time, and damaged ranges
    resync.py             the next valid batch after damage
    batch_group.py        the headers of a group of batches, as arrays
    record_boundaries.py  the start and end of each record
    record_fields.py      the fields of records
    record_headers.py     the headers of records
    varints.py            varints at many positions at once
    visibility.py         the batches that a reader may see
    read_spec.py          the columns and offsets to read of a segment, and aborted transactions
    record_decoder.py     decodes a group of batches into an Arrow record batch
    record_columns.py     its columns, from the headers of batches and the fields of records
    arrow_arrays.py       Arrow arrays from numpy arrays
    legacy_formats.py     the same for magic 0 and 1, record by record
    batches_view.py       one row for each batch, from its header
    damage.py             damage, and how a scan handles it

The package needs numpy and pyarrow (extra ``arrow``), but not Spark.
"""
