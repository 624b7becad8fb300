// A member of a group, which commits when it is told to, and begins at the beginning.
'use strict'

const { Kafka } = require('kafkajs')
const { settings } = require('./settings')
const { seen } = require('./consumer')

const MOMENT_MS = 200

async function openMember(address, group, topic) {
  const consumer = new Kafka(settings(address)).consumer({
    groupId: group,
    sessionTimeout: 6000,
    heartbeatInterval: MOMENT_MS,
    maxWaitTimeInMs: 100,
  })
  const next = new Map()
  let found = []
  let assigned = []
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    assigned = payload.memberAssignment[topic] || []
    next.clear() // what it has not committed may be another's now
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      found.push(seen(partition, { ...message, headers: message.headers || {} }))
      next.set(partition, Number(message.offset) + 1)
    },
  })
  return {
    poll: async () => {
      await new Promise(resolve => setTimeout(resolve, MOMENT_MS))
      const records = found
      found = []
      return { records, assigned }
    },
    commit: () => consumer.commitOffsets(
      [...next].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
    ),
    close: () => consumer.disconnect(),
  }
}

module.exports = { openMember }
