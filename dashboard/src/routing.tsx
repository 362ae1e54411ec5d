/** Routing: addresses to views and back. Every name in an address is one escaped segment. */
import { type AnchorHTMLAttributes, useEffect, useSyncExternalStore } from "react";
import type { State } from "./api/client";
import { STATES } from "./api/jobs";

/** A queue has a list for each state. */
export type Tab = State;

export type View =
  | { page: "overview" | "workers" | "events" | "schedules" | "keyspace" | "analytics" | "search" }
  | { page: "queue"; queue: string; tab: Tab }
  | { page: "job"; queue: string; id: string }
  | { page: "notFound" };

const PAGES = ["workers", "events", "schedules", "keyspace", "analytics", "search"] as const;

export function viewOf(path: string): View {
  const parts = path.split("/").filter(Boolean).map(decodeSegment);
  const [first, queue, section, id] = parts;
  if (first === undefined || (first === "queues" && queue === undefined)) return { page: "overview" };
  const page = PAGES.find((one) => one === first);
  if (page && parts.length === 1) return { page };
  if (first !== "queues" || queue === undefined) return { page: "notFound" };
  if (section === "jobs" && id !== undefined) return { page: "job", queue, id };
  const tab = STATES.find((one) => one === (section ?? "queued"));
  return tab && id === undefined ? { page: "queue", queue, tab } : { page: "notFound" };
}

function decodeSegment(segment: string): string {
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

const NAVIGATED = "ackline:navigated";

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(NAVIGATED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(NAVIGATED, listener);
  };
}

export const address = (): string => location.pathname + location.search;

/** Whether the current view was reached with Back or Forward. */
let viaHistory = false;
addEventListener("popstate", () => {
  viaHistory = true;
});
export const isBackNavigation = (): boolean => viaHistory;

/** Set the title of the document. */
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

export function navigate(to: string, options: { replace?: boolean } = {}): void {
  if (to === address()) return;
  if (options.replace) history.replaceState(null, "", to);
  else {
    viaHistory = false;
    history.pushState(null, "", to);
  }
  dispatchEvent(new Event(NAVIGATED));
}

/** Change query parameters of the address; an empty value removes one. */
export function setQuery(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  navigate(query.size ? `${location.pathname}?${query}` : location.pathname, { replace: true });
}

export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement>) {
  return (
    <a
      {...rest}
      href={href}
      onClick={(event) => {
        onClick?.(event);
        const plainClick = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
        if (!href || !plainClick || event.defaultPrevented) return;
        event.preventDefault();
        navigate(href);
      }}
    />
  );
}
