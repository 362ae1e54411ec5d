// What BullMQ does on either of its backends.

import { main } from './common.mjs'

const QUEUE = 'bench'
const CHUNK = 1000
const PATIENCE_MS = 60_000

// `backend` has its Queue, QueueEvents and Worker, and how they connect to a URL.
export async function run({ about, settings, backend }) {
  const { Queue, QueueEvents, Worker, connect } = backend
  let queue, events, options

  await main({
    about: { delivery: 'at least once', fenced: "by the lock's token", ...about },
    settings,

    async open(url, results) {
      queue = new Queue(QUEUE, { connection: connect(url) })
      await queue.waitUntilReady()
      // A result is read from its job, which must still be there.
      options = { attempts: 3, removeOnComplete: results ? 1000 : true }
      if (results) {
        events = new QueueEvents(QUEUE, { connection: connect(url) })
        await events.waitUntilReady()
      }
    },

    async close() {
      process.exit(0)
    },

    enqueue: (payload) => queue.add('run', payload, options),

    async enqueueMany(payloads) {
      for (let start = 0; start < payloads.length; start += CHUNK) {
        const chunk = payloads.slice(start, start + CHUNK)
        await queue.addBulk(chunk.map((data) => ({ name: 'run', data, opts: options })))
      }
    },

    async request(payload) {
      const job = await queue.add('run', payload, options)
      return job.waitUntilFinished(events, PATIENCE_MS)
    },

    async left() {
      const counts = await queue.getJobCounts('wait', 'active')
      return counts.wait + counts.active
    },

    async work(url, results, handle) {
      const worker = new Worker(QUEUE, async (job) => handle(job.data), {
        connection: connect(url),
        concurrency: settings.concurrency,
      })
      worker.on('error', (error) => console.error(error))
    },
  })
}
