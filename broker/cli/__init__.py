"""The command line: one module for each command of ``odradek``, and what they share.

main.py            which command is meant, and what becomes of its failures
serve.py           run a broker
topics.py          create, list, describe, alter and delete topics
configs.py         describe and alter the settings of topics and brokers
groups/            list, describe, reset and delete consumer groups
transactions/      list and describe transactions, find and abort those that hang
clusters/          run a cluster on this machine, or show how one is
reassign/          move partitions to other brokers
leaders.py         elect leaders of partitions
produce.py         write records
consume.py         read records
scan.py            read records straight from segment files
spark.py           run a Spark job over them
dump_log.py        print what is in the files of a log
zookeeper.py       run a ZooKeeper
version.py         which version this is

serving.py         a broker in this process: settings, signals, its end
signals.py         what stops it
client.py          what every command that is a client shares, through confluent-kafka
direct.py          requests which that library has no function for
first_answer.py    that of several brokers which could all give it
operated.py        a cluster as its operators see it, and its controller
topic_settings.py  what is set for topics
assignments.py     NAME=VALUE, as settings and headers are written
examples.py        how a command is used, at the end of its help
failed.py          a command that failed, and why
partitions.py      the partitions of topics, and the offsets of their logs
record_lines.py    records as lines of text or JSON, read and written
scan_output.py     rows of a scan: a table, JSON, CSV, Parquet
starting_point.py  where reading begins: an offset, a time, the beginning, the end
tables.py          rows: a table for a terminal, tabs for a pipe, JSON for a program
"""
