import { useEffect, useRef } from "react";

/** Whether a key belongs to what is being typed, or to a dialog. */
function typing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return true;
  if (document.querySelector("dialog[open]")) return true;
  return Boolean(target?.closest("input:not([type=checkbox]), textarea, select, [role=menu]"));
}

/** Calls `press` for each key on the page that nobody is typing with. */
export function useKeys(press: (event: KeyboardEvent) => void): void {
  const latest = useRef(press);
  latest.current = press;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (!typing(event)) latest.current(event);
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
}
