'use strict'

const { ConfigResourceTypes, Kafka } = require('kafkajs')
const { settings } = require('./settings')

// It asks again for a topic that it does not find, which is the answer that tests wait for.
const IMPATIENT = { initialRetryTime: 20, retries: 2 }

async function openAdmin(address) {
  const admin = new Kafka(settings(address)).admin({ retry: IMPATIENT })
  await admin.connect()
  const configs = async (type, name) => {
    const told = await admin.describeConfigs({ resources: [{ type, name }], includeSynonyms: false })
    const entries = told.resources[0].configEntries
    return Object.fromEntries(entries.map(each => [each.configName, each.configValue]))
  }
  return {
    create: asked => create(admin, asked),
    topics: () => admin.listTopics(),
    describe: asked => describe(admin, asked),
    delete: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
    grow: ({ topic, partitions: count }) => admin.createPartitions({ topicPartitions: [{ topic, count }] }),
    configs: ({ topic }) => configs(ConfigResourceTypes.TOPIC, topic),
    broker_configs: asked => configs(ConfigResourceTypes.BROKER, String(asked.broker_id)),
    alter: asked => alter(admin, asked),
    delete_records: asked => deleteRecords(admin, asked),
    first_and_next_offset: asked => firstAndNextOffset(admin, asked),
    cluster: () => cluster(admin),
    close: () => admin.disconnect(),
  }
}

async function create(admin, { topic, partitions, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const made = await admin.createTopics({ topics: [{ topic, numPartitions: partitions, configEntries }] })
  // That a topic is there already is no error to the library.
  if (!made) throw Object.assign(new Error(topic), { type: 'TOPIC_ALREADY_EXISTS' })
}

async function describe(admin, { topic }) {
  const told = await admin.fetchTopicMetadata({ topics: [topic] })
  return Object.fromEntries(
    told.topics[0].partitions.map(each => [
      each.partitionId,
      { leader: each.leader, replicas: each.replicas, in_sync: each.isr },
    ])
  )
}

async function alter(admin, { topic, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const type = ConfigResourceTypes.TOPIC
  await admin.alterConfigs({ resources: [{ type, name: topic, configEntries }] })
}

async function deleteRecords(admin, { topic, before }) {
  // It looks for the leader before it has asked who that is, and has to be told of the topic.
  await admin.fetchTopicOffsets(topic)
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] })
  const [first] = await firstAndNextOffset(admin, { topic })
  return first
}

async function firstAndNextOffset(admin, { topic }) {
  const told = await admin.fetchTopicOffsets(topic)
  const { low, high } = told.find(each => each.partition === 0)
  return [Number(low), Number(high)]
}

async function cluster(admin) {
  const told = await admin.describeCluster()
  const brokers = Object.fromEntries(told.brokers.map(each => [each.nodeId, `${each.host}:${each.port}`]))
  return { cluster_id: told.clusterId, controller: told.controller, brokers }
}

module.exports = { openAdmin }
