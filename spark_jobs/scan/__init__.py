"""The scanner: segment files of Kafka and of ours as Arrow record batches, without a broker.

    scanner.py        the function that does it all: options in, record batches out
    options.py        what is wanted, in the words of Spark's own Kafka source
    columns.py        the columns there are, and their Arrow types

What data there is, before any of it is read:

    file_access.py    local files, and whatever pyarrow or fsspec opens
    catalog.py        the partitions in log directories, their segments and checkpoints
    indexes.py        index files of which nothing is certain
    lookup.py         where in a segment an offset or a time begins
    log_ends.py       where each log ends
    transactions.py   aborted transactions and the last stable offset
    plan.py           splits: pieces of segments that can be read by themselves

Reading a split:

    walk.py           batches whose checksums are right, some 8 MB at a time, and what is damaged
    resync.py         where a sound batch begins again
    batch_group.py    the headers of a group of batches, as arrays
    boundaries.py     where each record begins
    fields.py         the fields of records
    record_headers.py the headers of records
    varints.py        varints at many positions at once
    visibility.py     which batches a reader sees
    wishes.py         what is wanted of a segment, and which transactions were aborted
    decode.py         from a group of batches to a record batch of Arrow
    record_columns.py its columns, from the headers of batches and the fields of records
    arrays.py         Arrow's arrays from numpy's
    old_formats.py    the same for magic 0 and 1, record by record
    batches_view.py   a row for each batch, from its header
    damage.py         damage, and what becomes of it

Needs numpy and pyarrow (extra ``arrow``), and no Spark.
"""
