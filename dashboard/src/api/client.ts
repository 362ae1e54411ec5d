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
  read: (): string | null => sessionStorage.getItem(TOKEN),
  write: (value: string): void => sessionStorage.setItem(TOKEN, value),
  forget: (): void => sessionStorage.removeItem(TOKEN),
};

const refused = new Set<() => void>();

/** Hear of it when the service does not know any more who calls. */
export function onRefused(listener: () => void): () => void {
  refused.add(listener);
  return () => refused.delete(listener);
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
}

/** Send a request; whatever is not a success is a `Problem`. */
export async function send(method: string, path: string, request: Request = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  const shown = token.read();
  if (shown) headers.authorization = `Bearer ${shown}`;
  const body = request.raw ?? (request.body === undefined ? null : JSON.stringify(request.body));
  if (body !== null) headers["content-type"] = request.type ?? "application/json";
  const options: RequestInit = { method, headers, body, cache: "no-store" };
  if (request.signal) options.signal = request.signal;
  let answer: Response;
  try {
    answer = await fetch(base + withQuery(path, request.query ?? {}), options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The service does not answer.");
  }
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
