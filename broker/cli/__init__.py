"""The command line ``odradek``: one module or package for each command, and their shared code.

Commands:

main.py                parses the arguments, runs a command, turns its errors into exit codes
serve.py               runs a broker (Kafka: kafka-server-start)
topics.py              creates, lists, describes, alters and deletes topics (kafka-topics)
configs.py             describes and alters settings of topics, brokers, groups (kafka-configs)
groups/                lists, describes, resets, deletes consumer groups (kafka-consumer-groups)
transactions/          lists, describes and aborts transactions (kafka-transactions)
clusters/              runs a cluster on this machine; shows the status of any cluster
reassign/              reassigns partitions (kafka-reassign-partitions)
leaders.py             elects partition leaders (kafka-leader-election)
produce.py             produces records (kafka-console-producer)
consume.py             consumes records (kafka-console-consumer)
scan.py                reads records directly from segment files
spark.py               runs a Spark job over segment files
dump_log.py            prints the contents of log files (kafka-dump-log)
zookeeper.py           runs a ZooKeeper server
version.py             prints the version

Shared code:

broker_runner.py       runs a broker in this process: settings, signals, shutdown
signals.py             the signals that a broker handles
client.py              options and helpers of the commands that use confluent-kafka
broker_connections.py  sends the requests for which confluent-kafka has no function
hedged_request.py      sends a request to several brokers and returns the first response
cluster_client.py      sends requests to the brokers and the controller of a cluster
topic_settings.py      fetches the settings of topics
name_values.py         parses NAME=VALUE arguments
examples.py            adds examples to the help of a command
errors.py              the exception for a failed command, and an exit code
partitions.py          the partitions of topics, and their log start and end offsets
record_lines.py        reads and writes records as lines of text or JSON
scan_output.py         writes the rows of a scan as a table, JSON, CSV or Parquet
starting_point.py      parses the position from which records are read
tables.py              prints rows as a table, as tab-separated lines or as JSON
"""
