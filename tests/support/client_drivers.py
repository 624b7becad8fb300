"""Every client library that there is a driver for."""

from tests.support.aiokafka_driver import AiokafkaDriver
from tests.support.client_driver import Driver
from tests.support.confluent_driver import ConfluentDriver
from tests.support.kafka_python_driver import KafkaPythonDriver

DRIVERS: tuple[Driver, ...] = (ConfluentDriver(), KafkaPythonDriver(), AiokafkaDriver())
