"""What brokers write for themselves, as rows: ``__consumer_offsets`` and ``__transaction_state``.

    content.py              which contents there are, and what names a single key in them
    columns.py              their columns, and Arrow types
    home_partition.py       the one partition that has all of a group, or of a transactional id
    meaning.py              from the scanner's records to rows that say what they mean
    group_records.py        the records of groups: committed offsets above all
    transaction_records.py  the records of transactional ids
    cells.py                what both have in common

Needs numpy and pyarrow (extra ``arrow``), and no Spark.
"""
