/** The commands that empty pages suggest; a test runs each of them. */
export const COMMANDS = {
  enqueue: `ackline enqueue email '{"to": "ann@example.com"}' --kind emails.welcome`,
  worker: "ackline worker emails:app",
  pipeline: "ackline pipeline run --lake lake",
  serve: "ackline serve --lake lake",
} as const;
