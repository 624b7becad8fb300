"""What a server can be told: every setting, where it is written, and how it changes.

The tables (those of logs are in storage/, those of the controller in controller/):

    server.py           the broker as such
    network.py          listeners, connections, requests
    replication.py      replicas
    groups.py           groups and committed offsets
    consumer_groups.py  groups of the consumer protocol
    transactions.py     transactions and transactional ids
    internal_topics.py  how the topics of both are made

All together:

    server_settings.py  every table, read from the same layers
    sources.py          the file, the environment, the command line
    kafka_names.py      the settings that Kafka has
    updates.py          what may be changed while the broker runs
    stored.py           what the store has configured
    dynamic.py          the settings in force, and who listens
    topic_configs.py    topics that come and go
    reference.py        docs/configuration.md
"""
