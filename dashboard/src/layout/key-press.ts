import { useEffect, useRef } from "react";

/** Whether a key press belongs to an input or a dialog. */
function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return true;
  if (document.querySelector("dialog[open]")) return true;
  return Boolean(target?.closest("input:not([type=checkbox]), textarea, select, [role=menu]"));
}

/** Call `onPress` for each key press outside of inputs and dialogs. */
export function useKeyPress(onPress: (event: KeyboardEvent) => void): void {
  const latest = useRef(onPress);
  latest.current = onPress;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (!isTyping(event)) latest.current(event);
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
}
