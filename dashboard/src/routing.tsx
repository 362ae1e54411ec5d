/** Which view the address names. Every name in it is one segment, whatever characters it has. */
import { type AnchorHTMLAttributes, useEffect, useSyncExternalStore } from "react";
import type { State } from "./api/client";
import { STATES } from "./api/jobs";

/** A queue has a list for each state. */
export type Tab = State;

export type View =
  | { page: "overview" | "workers" | "events" | "schedules" | "keyspace" | "analytics" | "search" }
  | { page: "queue"; queue: string; tab: Tab }
  | { page: "job"; queue: string; id: string }
  | { page: "nowhere" };

const PLAIN = ["workers", "events", "schedules", "keyspace", "analytics", "search"] as const;

export function viewOf(path: string): View {
  const parts = path.split("/").filter(Boolean).map(decoded);
  const [first, queue, third, id] = parts;
  if (first === undefined || (first === "queues" && queue === undefined)) return { page: "overview" };
  const plain = PLAIN.find((page) => page === first);
  if (plain && parts.length === 1) return { page: plain };
  if (first !== "queues" || queue === undefined) return { page: "nowhere" };
  if (third === "jobs" && id !== undefined) return { page: "job", queue, id };
  const tab = STATES.find((one) => one === (third ?? "queued"));
  return tab && id === undefined ? { page: "queue", queue, tab } : { page: "nowhere" };
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export const toQueue = (queue: string, tab: Tab = "queued"): string =>
  `/queues/${encodeURIComponent(queue)}/${tab}`;

export const toJob = (queue: string, id: string): string =>
  `/queues/${encodeURIComponent(queue)}/jobs/${encodeURIComponent(id)}`;

const MOVED = "ackline:moved";

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(MOVED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(MOVED, listener);
  };
}

export const address = (): string => location.pathname + location.search;

/** Whether the browser's own Back or Forward has led here. */
let returned = false;
addEventListener("popstate", () => {
  returned = true;
});
export const hasReturned = (): boolean => returned;

/** What the browser calls this view: in its tabs, its history and its bookmarks. */
export function useTitle(...parts: string[]): void {
  const title = [...parts, "Ackline"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}

export function useAddress(): { path: string; query: URLSearchParams } {
  const [path = "/", query = ""] = useSyncExternalStore(subscribe, address).split("?");
  return { path, query: new URLSearchParams(query) };
}

export function go(to: string, options: { replace?: boolean } = {}): void {
  if (to === address()) return;
  if (options.replace) history.replaceState(null, "", to);
  else {
    returned = false;
    history.pushState(null, "", to);
  }
  dispatchEvent(new Event(MOVED));
}

/** Change what the address says behind the question mark; an empty value goes. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  go(query.size ? `${location.pathname}?${query}` : location.pathname, { replace: true });
}

export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  return (
    <a
      {...rest}
      href={href}
      onClick={(event) => {
        onClick?.(event);
        const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
        if (!href || !plain || event.defaultPrevented) return;
        event.preventDefault();
        go(href);
      }}
    />
  );
}
