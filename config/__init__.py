"""How settings are written: one declaration each, from which everything else follows.

definition.py     one setting: name, kind, default and rules
settings.py       tables of them: layers, fallbacks, dynamic change, description
kinds.py          the nine kinds of value and their text, as Kafka reads and writes it
documentation.py  a table as Markdown, and as comments of an example file
properties.py     reading a Java-style .properties file
"""
