"""docs/configuration.md: every setting of a server, of a topic and of a group.

python -m odradek.broker.settings.reference > docs/configuration.md
"""

import sys

from odradek.broker.settings.broker import BrokerSettings
from odradek.broker.settings.consumer_groups import ConsumerGroupSettings, OneGroupSettings
from odradek.broker.settings.groups import GroupSettings
from odradek.broker.settings.internal_topics import InternalTopicSettings
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.settings.replication import ReplicationSettings
from odradek.broker.settings.transactions import TransactionSettings
from odradek.config.documentation import as_markdown as as_table
from odradek.config.settings import Settings
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.zookeeper_settings import ZooKeeperSettings
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.log_settings import LogSettings
from odradek.storage.settings import TopicSettings

HEAD = """\
# Configuration

Made by `python -m odradek.broker.settings.reference` from the tables in `broker/settings/`,
`storage/` and `controller/`; a test keeps it fresh. Names, types and defaults are those of Apache
Kafka 3.9, where a setting does not say otherwise.

## Where settings are written

| where | example | beats |
|---|---|---|
| the file, as Kafka's `server.properties` | `log.segment.bytes=1048576` | the defaults |
| the environment | `ODRADEK_LOG_SEGMENT_BYTES=1048576` | the file |
| the command line | `--override log.segment.bytes=1048576` | the environment |
| the store, for all brokers | `IncrementalAlterConfigs` of broker "" | what the broker began with |
| the store, for one broker | `IncrementalAlterConfigs` of broker "1" | what is set for all |
| the store, for one topic | `IncrementalAlterConfigs` of a topic | the default that brokers have |
| the store, for one group | `IncrementalAlterConfigs` of a group | the default that brokers have |

A variable's name is the setting's in capitals, with `_` for a dot, `__` for an underscore and `___`
for a hyphen, after `ODRADEK_`. There are commented examples in `config/server.properties` and
`config/server-zookeeper.properties`.

A name that no table below has is reported in one line at the start, by whether Kafka has such a
setting, and has no effect. A value that breaks its rule stops the start with one line that says
where it stands. In the store, such a value is logged and ignored.

*Update* says what can be changed while the broker runs: `cluster-wide` for all brokers or for one,
`per-broker` for one, `per-topic` for a topic, `per-group` for a group, and `read-only` by a restart
only. A number of threads can be doubled or halved at once, not more.

What is done again and again, by an interval, is done ten times a second at most.

Passwords are shown to nobody. They are not encrypted (`password.encoder.secret` has no effect), and
so cannot be set dynamically: INVALID_CONFIG, as in Kafka where that secret is not given.

Without `zookeeper.connect` the broker is alone, on a store of its own, and the replication factors
of the internal topics and `transaction.state.log.min.isr` are 1 unless they are set.
"""

SECTIONS: tuple[tuple[str, type[Settings]], ...] = (
    ("The broker", BrokerSettings),
    ("Network", NetworkSettings),
    ("Logs", LogSettings),
    ("Compaction", CleanerSettings),
    ("Replication", ReplicationSettings),
    ("Groups", GroupSettings),
    ("Groups of the consumer protocol", ConsumerGroupSettings),
    ("Transactions", TransactionSettings),
    ("Internal topics", InternalTopicSettings),
    ("The controller", ControllerSettings),
    ("ZooKeeper", ZooKeeperSettings),
    ("Topics", TopicSettings),
    ("Single groups of the consumer protocol", OneGroupSettings),
)


def as_markdown() -> str:
    sections = [f"\n## {title}\n\n{as_table(table)}" for title, table in SECTIONS]
    return HEAD + "".join(sections)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
