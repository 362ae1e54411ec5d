/** Requests to the service: authentication, timeouts and errors. */
import type { components } from "./schema";

export type Schemas = components["schemas"];
export type State = Schemas["State"];

const TOKEN = "ackline.token";

export const base =
  document.querySelector<HTMLMetaElement>('meta[name="ackline-base"]')?.content ?? "/api";

/** A failed request: the problem details of the service, or status 0 if there was no response. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    detail: string,
    readonly field?: string,
    /** Where to continue reading if the requested cursor has been pruned. */
    readonly cursor?: string | null,
  ) {
    super(detail);
  }

  /** Whether there was no response at all. */
  get unreachable(): boolean {
    return this.status === 0;
  }
}

/** The token is kept for this tab only, and never in the address. */
export const token = {
  read: (): string | null => tryOrNull(() => sessionStorage.getItem(TOKEN)) ?? memoryToken,
  write: (value: string): void => {
    memoryToken = value;
    tryOrNull(() => sessionStorage.setItem(TOKEN, value));
  },
  clear: (): void => {
    memoryToken = null;
    tryOrNull(() => sessionStorage.removeItem(TOKEN));
  },
};

/** Used if the browser denies access to its storage. */
let memoryToken: string | null = null;

function tryOrNull<T>(work: () => T): T | null {
  try {
    return work();
  } catch {
    return null;
  }
}

const unauthorizedListeners = new Set<() => void>();

/** Call `listener` when the service rejects the token. */
export function onUnauthorized(listener: () => void): () => void {
  unauthorizedListeners.add(listener);
  return () => unauthorizedListeners.delete(listener);
}

/** Milliseconds a request waits before the service counts as unresponsive. */
const UNRESPONSIVE_AFTER = 5000;
/** Milliseconds after which a request is given up. */
const TIMEOUT = 15_000;

let lastResponseAt = 0;
const unresponsiveListeners = new Set<(unresponsive: boolean) => void>();

/** Call `listener` when the service stops responding to requests, and when it responds again. */
export function onUnresponsive(listener: (unresponsive: boolean) => void): () => void {
  unresponsiveListeners.add(listener);
  return () => unresponsiveListeners.delete(listener);
}

/** Note that the service is alive. */
export function noteResponse(): void {
  lastResponseAt = performance.now();
  for (const listener of unresponsiveListeners) listener(false);
}

function watchResponse(): () => void {
  const check = () => {
    if (performance.now() - lastResponseAt < UNRESPONSIVE_AFTER - 100) return;
    for (const listener of unresponsiveListeners) listener(true);
  };
  const timer = setTimeout(check, UNRESPONSIVE_AFTER);
  return () => clearTimeout(timer);
}

/** A path below `/v1` with every name escaped as one segment. */
export function v1(parts: TemplateStringsArray, ...names: string[]): string {
  const path = parts.reduce(
    (path, part, index) => path + encodeURIComponent(names[index - 1] ?? "") + part,
  );
  return `/v1${path}`;
}

export type Query = Record<string, string | number | boolean | string[] | null | undefined>;

export function withQuery(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) params.append(name, one);
  }
  return params.size ? `${path}?${params}` : path;
}

interface Request {
  query?: Query;
  body?: unknown;
  /** A body that is sent as it is. */
  raw?: BodyInit;
  type?: string;
  signal?: AbortSignal;
  /** For bulk actions and files, which may take long. */
  noTimeout?: boolean;
}

/** Aborts the request on the caller's signal or after the timeout. */
function abortSignal({ signal, noTimeout }: Request): AbortSignal | undefined {
  const signals = [signal, noTimeout ? undefined : AbortSignal.timeout(TIMEOUT)].filter((one) => one !== undefined);
  return signals.length > 1 ? AbortSignal.any(signals) : signals[0];
}

/** Send a request; raises a `Problem` unless it succeeds. */
export async function send(method: string, path: string, request: Request = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  const key = token.read();
  if (key) headers.authorization = `Bearer ${key}`;
  const body = request.raw ?? (request.body === undefined ? null : JSON.stringify(request.body));
  if (body !== null) headers["content-type"] = request.type ?? "application/json";
  const options: RequestInit = { method, headers, body, cache: "no-store" };
  const signal = abortSignal(request);
  if (signal) options.signal = signal;
  const stopWatching = watchResponse();
  let response: Response;
  try {
    response = await fetch(base + withQuery(path, request.query ?? {}), options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const timedOut = error instanceof DOMException && error.name === "TimeoutError" && method !== "GET";
    throw new Problem(0, timedOut ? "timeout" : "unreachable", "The service is not responding.");
  } finally {
    stopWatching();
  }
  noteResponse();
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Send a request and parse the response as JSON. */
export async function call<T>(method: string, path: string, request: Request = {}): Promise<T> {
  const response = await send(method, path, request);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function problemOf(response: Response): Promise<Problem> {
  const problem = (await response.json().catch(() => null)) as Schemas["Problem"] | null;
  const type = problem?.type.split(":").pop() ?? "unknown";
  if (response.status === 401) for (const listener of unauthorizedListeners) listener();
  return new Problem(
    response.status,
    type,
    problem?.detail ?? `The service answered ${response.status}.`,
    problem?.at,
    problem?.cursor,
  );
}
