// What the peers in JavaScript share; ../shared says what each measure means.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual, parseArgs } from 'node:util'

const PAYLOAD = { order: 12345, pad: 'x'.repeat(75) }
const CALLERS = 100
const WARM_UP = 20
const GAP_MS = [2, 12]
const PATIENCE_MS = 5000

// The clock of the machine, the same in every process, as Python's perf_counter.
const now = () => Number(process.hrtime.bigint()) / 1e9

const processorTime = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

// A peer has: about, settings, open(url, results), close(), enqueue(payload), enqueueMany(payloads)
// if there is such a call, request(payload), left(), work(url, results, handle).
export async function main(peer) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      url: { type: 'string', default: 'redis://127.0.0.1:6379' },
      jobs: { type: 'string', default: '1000' },
      handler: { type: 'string', default: 'tally' },
      set: { type: 'string', multiple: true, default: [] },
    },
  })
  change(peer.settings, values.set)
  const [measure] = positionals
  const jobs = Number(values.jobs)
  if (measure === 'about') {
    print(describe(peer.about))
  } else if (measure === 'work') {
    await peer.work(values.url, values.handler === 'echo', HANDLERS[values.handler](jobs))
  } else {
    await peer.open(values.url, measure === 'round_trip')
    await peer.left()
    print(await MEASURES[measure](peer, jobs))
    await peer.close()
  }
}

const MEASURES = {
  async one(peer, jobs) {
    const began = now()
    for (let job = 0; job < jobs; job++) await peer.enqueue(PAYLOAD)
    return rate(jobs, began)
  },

  async bulk(peer, jobs) {
    const began = now()
    if (peer.enqueueMany) await peer.enqueueMany(Array(jobs).fill(PAYLOAD))
    else await fromManyCallers(peer, jobs)
    return rate(jobs, began)
  },

  async concurrent(peer, jobs) {
    const began = now()
    await fromManyCallers(peer, jobs)
    return rate(jobs, began)
  },

  drain: (peer, jobs) =>
    withWorker('tally', jobs, async (numbers) => {
      const [first, usedBefore] = await numbers()
      const [, used] = await numbers()
      while (await peer.left()) await sleep(1)
      return { ...rate(jobs, first), worker_us: ((used - usedBefore) / jobs) * 1e6 }
    }),

  start: (peer, samples) =>
    withWorker('stamp', samples, (numbers) =>
      latency(samples, async () => {
        await peer.enqueue({ ...PAYLOAD, at: now() })
        const [seconds] = await numbers()
        return seconds
      }),
    ),

  round_trip: (peer, samples) =>
    withWorker('echo', samples, () =>
      latency(samples, async () => {
        const began = now()
        const answer = await peer.request(PAYLOAD)
        const took = now() - began
        if (!isDeepStrictEqual(answer, PAYLOAD)) throw new Error(`wrong: ${JSON.stringify(answer)}`)
        return took
      }),
    ),
}

const HANDLERS = {
  tally: (jobs) => {
    let number = 0
    return () => {
      number += 1
      if (number === 1 || number === jobs) say(now(), processorTime())
    }
  },
  stamp: () => (payload) => say(now() - payload.at),
  echo: () => (payload) => payload,
}

function fromManyCallers(peer, jobs) {
  const call = async () => {
    for (let job = 0; job < jobs / CALLERS; job++) await peer.enqueue(PAYLOAD)
  }
  return Promise.all(Array.from({ length: CALLERS }, call))
}

async function latency(samples, sample) {
  const [least, most] = GAP_MS
  const taken = []
  for (let number = 0; number < WARM_UP + samples; number++) {
    await sleep(least + Math.random() * (most - least))
    taken.push(await sample())
  }
  const ordered = taken.slice(WARM_UP).sort((a, b) => a - b)
  return { p50_ms: quantile(ordered, 0.5) * 1e3, p99_ms: quantile(ordered, 0.99) * 1e3 }
}

const quantile = (ordered, share) => ordered[Math.ceil(share * ordered.length) - 1]

const rate = (jobs, began) => ({ per_second: jobs / (now() - began) })

async function withWorker(handler, jobs, use) {
  const asked = [...process.argv.slice(3), '--jobs', String(jobs), '--handler', handler]
  const worker = spawn(process.execPath, [process.argv[1], 'work', ...asked], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => worker.once('exit', resolve))
  const lines = createInterface({ input: worker.stdout })[Symbol.asyncIterator]()
  const numbers = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error(`the worker has ended with ${await ended}`)
    return value.split(' ').map(Number)
  }
  try {
    return await use(numbers)
  } finally {
    worker.kill('SIGTERM')
    const impatience = setTimeout(() => worker.kill('SIGKILL'), PATIENCE_MS)
    await ended
    clearTimeout(impatience)
  }
}

function change(settings, changes) {
  for (const setting of changes) {
    const [name, value] = setting.split('=')
    settings[name] = typeof settings[name] === 'number' ? Number(value) : value
  }
}

function describe(about) {
  const versions = about.packages.map((name) => `${name} ${versionOf(name)}`)
  return { bulk: '', ...about, versions: [...versions, `Node.js ${process.versions.node}`] }
}

function versionOf(name) {
  const path = new URL(`node_modules/${name}/package.json`, import.meta.url)
  return JSON.parse(readFileSync(path, 'utf8')).version
}

const say = (...numbers) => {
  process.stdout.write(`${numbers.join(' ')}\n`)
}

const print = (answer) => console.log(JSON.stringify(answer))
