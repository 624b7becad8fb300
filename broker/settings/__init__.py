"""The settings of a broker: their declarations, their sources and their changes at run time.

Kafka: KafkaConfig, DynamicBrokerConfig and DynamicConfig.

The tables (those of logs are in storage/, those of the controller in controller/):

    broker.py           general settings of a broker
    network.py          listeners, connections, requests
    replication.py      replication
    groups.py           groups and committed offsets
    consumer_groups.py  groups of the consumer protocol
    transactions.py     transactions and transactional ids
    internal_topics.py  creation of the internal topics

Common modules:

    server_settings.py  all tables, read from the same sources
    sources.py          reads the file, the environment and the command line
    kafka_config_names.py  the names of Kafka's broker settings
    dynamic_config_rules.py  which settings may change at run time, and how
    config_store.py     reads configurations from the metadata store
    dynamic_settings.py  the current settings and the listeners for their changes
    topic_configs.py    configurations of topics that are created and deleted
    reference.py        generates docs/configuration.md
"""
