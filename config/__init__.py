"""How settings are written: one declaration each, from which everything else follows.

definition.py     Settings tables: declaration, layers, validation, dynamic change
kinds.py          the nine kinds of value and their text, as Kafka reads and writes it
documentation.py  a table as Markdown, and as comments of an example file
properties.py     reading a Java-style .properties file
"""
