import { useState } from "react";
import { useKeyPress } from "../layout/key-press";

interface RowActions {
  open: (id: string) => void;
  select?: ((id: string) => void) | undefined;
  show: (at: number, id: string) => void;
}

/** j and k move between rows, Enter opens one, x selects it. Returns the id of the current row. */
export function useRowNavigation(ids: readonly string[], actions: RowActions, start: string | null = null): string | null {
  const [cursor, setCursor] = useState<string | null>(start);
  useKeyPress((event) => {
    const at = cursor === null ? -1 : ids.indexOf(cursor);
    const step = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
    if (step !== 0 && ids.length > 0) {
      const next = Math.min(Math.max(at + step, 0), ids.length - 1);
      setCursor(ids[next]!);
      actions.show(next, ids[next]!);
    } else if (cursor !== null && at >= 0) {
      const onLink = (event.target as HTMLElement).closest("a, button");
      if (event.key === "Enter" && !onLink) actions.open(cursor);
      else if (event.key === "x") actions.select?.(cursor);
    }
  });
  return cursor;
}
