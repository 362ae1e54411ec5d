/** The commands that empty pages suggest; a test runs each of them. */
export const COMMANDS = {
  enqueue: `ackline enqueue email '{"to": "ann@example.com"}'`,
  worker: "ackline worker emails:queue",
  pipeline: "ackline pipeline run --lake lake",
  serve: "ackline serve --lake lake",
} as const;
