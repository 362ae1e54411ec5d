/** What empty pages tell one to type. Each of them is tried by a test. */
export const COMMANDS = {
  enqueue: `ackline enqueue email '{"to": "ann@example.com"}'`,
  worker: "ackline worker emails:queue",
  pipeline: "ackline pipeline run --lake lake",
  serve: "ackline serve --lake lake",
} as const;
