/** One way to the service: who asks, what was answered, and what went wrong. */
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type State = Schemas["State"];

const TOKEN = "ackline.token";

export const base =
  document.querySelector<HTMLMetaElement>('meta[name="ackline-base"]')?.content ?? "/api";

/** An answer that is not what was asked for: a problem detail of the service, or no answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly word: string,
    detail: string,
    readonly at?: string,
    /** Where to read on, if what was asked for is kept no longer. */
    readonly cursor?: string | null,
  ) {
    super(detail);
  }

  /** Whether nothing came back at all: the service is away, or the way to it. */
  get unreachable(): boolean {
    return this.status === 0;
  }
}

/** The token is kept for this tab only, and never in an address. */
export const token = {
  read: (): string | null => attempt(() => sessionStorage.getItem(TOKEN)) ?? shown,
  write: (value: string): void => {
    shown = value;
    attempt(() => sessionStorage.setItem(TOKEN, value));
  },
  forget: (): void => {
    shown = null;
    attempt(() => sessionStorage.removeItem(TOKEN));
  },
};

/** For a browser that keeps nothing: until this page is left. */
let shown: string | null = null;

function attempt<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}

const refused = new Set<() => void>();

/** Be told when the service no longer accepts the token. */
export function onRefused(listener: () => void): () => void {
  refused.add(listener);
  return () => refused.delete(listener);
}

/** Milliseconds without a word, while something is asked, after which the service is silent. */
const SILENCE = 5000;
/** Milliseconds after which nobody waits any more for an answer. */
const PATIENCE = 15_000;

let heardAt = 0;
const silence = new Set<(silent: boolean) => void>();

/** Be told when the service stops responding to requests, and when it responds again. */
export function onSilence(listener: (silent: boolean) => void): () => void {
  silence.add(listener);
  return () => silence.delete(listener);
}

/** Note that the service has said something, whatever it was. */
export function heard(): void {
  heardAt = performance.now();
  for (const listener of silence) listener(false);
}

function watch(): () => void {
  const look = () => {
    if (performance.now() - heardAt >= SILENCE - 100) for (const listener of silence) listener(true);
  };
  const timer = setTimeout(look, SILENCE);
  return () => clearTimeout(timer);
}

/** A path below `/v1` in which every name is one segment, whatever is in it. */
export function v1(parts: TemplateStringsArray, ...names: string[]): string {
  const path = parts.reduce(
    (made, part, at) => made + encodeURIComponent(names[at - 1] ?? "") + part,
  );
  return `/v1${path}`;
}

export type Query = Record<string, string | number | boolean | string[] | null | undefined>;

export function withQuery(path: string, query: Query): string {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) said.append(name, one);
  }
  return said.size ? `${path}?${said}` : path;
}

interface Request {
  query?: Query;
  body?: unknown;
  /** A body that is sent as it is. */
  raw?: BodyInit;
  type?: string;
  signal?: AbortSignal;
  /** It may take as long as it takes: acts on many jobs, and files. */
  patient?: boolean;
}

/** Until when an answer is waited for. */
function limit({ signal, patient }: Request): AbortSignal | undefined {
  const signals = [signal, patient ? undefined : AbortSignal.timeout(PATIENCE)].filter((one) => one !== undefined);
  return signals.length > 1 ? AbortSignal.any(signals) : signals[0];
}

/** Send a request; whatever is not a success is a `Problem`. */
export async function send(method: string, path: string, request: Request = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  const key = token.read();
  if (key) headers.authorization = `Bearer ${key}`;
  const body = request.raw ?? (request.body === undefined ? null : JSON.stringify(request.body));
  if (body !== null) headers["content-type"] = request.type ?? "application/json";
  const options: RequestInit = { method, headers, body, cache: "no-store" };
  const until = limit(request);
  if (until) options.signal = until;
  const done = watch();
  let answer: Response;
  try {
    answer = await fetch(base + withQuery(path, request.query ?? {}), options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const late = error instanceof DOMException && error.name === "TimeoutError" && method !== "GET";
    throw new Problem(0, late ? "late" : "unreachable", "The service is not responding.");
  } finally {
    done();
  }
  heard();
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

/** The same, with the answer read as JSON. */
export async function call<T>(method: string, path: string, request: Request = {}): Promise<T> {
  const answer = await send(method, path, request);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

async function problemOf(answer: Response): Promise<Problem> {
  const said = (await answer.json().catch(() => null)) as Schemas["Problem"] | null;
  const word = said?.type.split(":").pop() ?? "unknown";
  if (answer.status === 401) for (const listener of refused) listener();
  return new Problem(
    answer.status,
    word,
    said?.detail ?? `The service answered ${answer.status}.`,
    said?.at,
    said?.cursor,
  );
}
