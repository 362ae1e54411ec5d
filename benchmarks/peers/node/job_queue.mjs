// @platformatic/job-queue: a list, a list of what each worker has, a hash of states.

import { Queue, Reaper, RedisStorage } from '@platformatic/job-queue'
import { Redis } from 'iovalkey'
import { randomUUID } from 'node:crypto'
import { main } from './common.mjs'

const WORKER = 'bench'
const PATIENCE_MS = 60_000

const settings = { concurrency: 1000 }
let queue, redis

await main({
  about: {
    name: '@platformatic/job-queue',
    packages: ['@platformatic/job-queue', 'iovalkey'],
    delivery: 'at least once, but for a crash between move and state',
    fenced: 'no',
    settings: 'concurrency 1000, its reaper beside the worker',
  },
  settings,

  async open(url) {
    redis = new Redis(url)
    queue = new Queue({ storage: new RedisStorage({ url }) })
    await queue.start()
  },

  async close() {
    process.exit(0)
  },

  enqueue: (payload) => queue.enqueue(randomUUID(), payload),

  request: (payload) => queue.enqueueAndWait(randomUUID(), payload, { timeout: PATIENCE_MS }),

  async left() {
    return (await redis.llen('jq:queue')) + (await redis.llen(`jq:processing:${WORKER}`))
  },

  async work(url, results, handle) {
    const storage = new RedisStorage({ url })
    const { concurrency } = settings
    const consumer = new Queue({ storage, workerId: WORKER, concurrency })
    consumer.execute(async (job) => handle(job.payload) ?? null)
    consumer.on('error', (error) => console.error(error))
    await consumer.start()
    await new Reaper({ storage }).start()
  },
})
