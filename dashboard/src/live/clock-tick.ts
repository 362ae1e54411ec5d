/** One timer for all countdowns and relative times of the page. */
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

/** The value that `read` computes from the store's time; renders again only when it changes. */
export function useClockTick<T extends string | number | boolean | null>(
  read: (now: number | null) => T,
): T {
  return useSyncExternalStore(subscribe, () => read(clock.now()));
}
