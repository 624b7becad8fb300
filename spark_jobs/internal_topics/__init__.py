"""Decoder of the internal topics ``__consumer_offsets`` and ``__transaction_state`` into rows.

    content.py                the values of the option ``content``, and the topic of each
    columns.py                the columns of each content, with their Arrow types
    coordinator_partition.py  the partition that has all records of a group or transactional id
    record_parser.py          the scanner's record batches to decoded rows
    group_records.py          records of groups: committed offsets and group metadata
    transaction_records.py    records of transactional ids
    record_cells.py           what both kinds of records have in common

The package needs numpy and pyarrow (extra ``arrow``), but not Spark.
"""
