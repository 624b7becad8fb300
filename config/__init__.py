"""Declarations of settings, and tables of typed values. Kafka: ConfigDef, AbstractConfig.

Each setting is declared once. Parsing, validation, DescribeConfigs and the documentation all
follow from the declaration. This package holds the mechanism; the tables themselves belong to the
packages that use the settings.

definition.py     one setting: name, type, default and rules
settings.py       tables of settings: config sources, fallbacks, dynamic updates, descriptions
types.py          the nine config types and their text form, as Kafka parses and prints them
documentation.py  a table as Markdown, and as the comments of an example file
properties.py     a parser for Java-style .properties files
"""
