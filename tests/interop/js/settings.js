// The settings of every client here: patient enough for a broker to start meanwhile, and silent.
'use strict'

const { logLevel } = require('kafkajs')

const TIMEOUT_MS = 30000

const settings = address => ({
  clientId: 'interop',
  brokers: [address],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 40 },
})

module.exports = { TIMEOUT_MS, settings }
