"""Describing and altering configs on request of a client.

Kafka: ConfigAdminManager, ConfigHelper and Log4jController.

    config_resources.py      the resource types that a config can belong to
    config_helper.py         DescribeConfigs: values, sources and synonyms
    config_admin_manager.py  AlterConfigs and IncrementalAlterConfigs
    logger_levels.py         the levels of loggers
"""
