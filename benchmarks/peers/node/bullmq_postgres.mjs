// BullMQ on PostgreSQL: its functions in the database, a row and a lock with a token for each job.

import { createPostgresBackend, withBackend } from 'bullmq'
import { run } from './bullmq_shared.mjs'

const settings = { concurrency: 100, connections: 10 }
const connect = (url) => ({ connectionString: url, max: settings.connections, migrate: true })

await run({
  about: {
    name: 'BullMQ on PostgreSQL',
    packages: ['bullmq', 'pg'],
    settings: 'attempts 3, removeOnComplete, concurrency 100, 10 connections',
    bulk: 'addBulk, 1,000 a call',
  },
  settings,
  backend: { ...withBackend(createPostgresBackend), connect },
})
