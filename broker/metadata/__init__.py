"""Cluster metadata of this broker, and automatic topic creation.

Kafka: ZkMetadataCache, AutoTopicCreationManager, FinalizedFeatureChangeListener.

metadata_snapshot.py            brokers, topics and partitions at one moment
metadata_update.py              applies an UpdateMetadata request to a snapshot
metadata_cache.py               the current snapshot, and waiting for changes
topic_waiters.py                waits for conditions on topics
topic_metadata.py               topics in Metadata responses
auto_topic_creation_manager.py  automatic topic creation on first use
finalized_feature_cache.py      the finalized features of the cluster (KIP-584)
internal_topics.py              names of the internal topics
authorized_operations.py        operations that are allowed without an authorizer
"""
