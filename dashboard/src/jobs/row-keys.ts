import { useEffect, useRef, useState } from "react";
import { typing } from "../shell/shortcuts";

interface Acts {
  open: (id: string) => void;
  select?: ((id: string) => void) | undefined;
  show: (at: number, id: string) => void;
}

/** j and k walk through the rows, Enter opens one, x selects it. Answers which row it is. */
export function useRowKeys(ids: readonly string[], acts: Acts, start: string | null = null): string | null {
  const [cursor, setCursor] = useState<string | null>(start);
  const latest = useRef({ ids, acts, cursor });
  latest.current = { ids, acts, cursor };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (typing(event)) return;
      const { ids, acts, cursor } = latest.current;
      const at = cursor === null ? -1 : ids.indexOf(cursor);
      const step = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (step !== 0 && ids.length > 0) {
        const next = Math.min(Math.max(at + step, 0), ids.length - 1);
        setCursor(ids[next]!);
        acts.show(next, ids[next]!);
      } else if (cursor !== null && at >= 0) {
        const onLink = (event.target as HTMLElement).closest("a, button");
        if (event.key === "Enter" && !onLink) acts.open(cursor);
        else if (event.key === "x") acts.select?.(cursor);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  return cursor;
}
