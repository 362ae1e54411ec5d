// BullMQ: Lua scripts, a hash and a lock with a token for each job.

import { Queue, QueueEvents, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { run } from './bullmq_shared.mjs'

// What its documentation asks of a worker's connection.
const connect = (url) => new Redis(url, { maxRetriesPerRequest: null })

await run({
  about: {
    name: 'BullMQ',
    packages: ['bullmq', 'ioredis'],
    settings: 'attempts 3, removeOnComplete, concurrency 300',
    bulk: 'addBulk',
  },
  settings: { concurrency: 300 },
  backend: { Queue, QueueEvents, Worker, connect },
})
