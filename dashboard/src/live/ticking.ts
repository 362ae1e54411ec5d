/** One timer for everything on the page that counts seconds. */
import { useSyncExternalStore } from "react";
import { clock } from "../api/clock";

const TICK = 250;

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    for (const one of listeners) one();
  }, TICK);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** What `read` makes of the store's time, kept up to date; draws again only when that changes. */
export function useTicking<T extends string | number | boolean | null>(
  read: (now: number | null) => T,
): T {
  return useSyncExternalStore(subscribe, () => read(clock.now()));
}
