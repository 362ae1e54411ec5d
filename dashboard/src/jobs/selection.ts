import { useCallback, useEffect, useMemo, useState } from "react";
import { usePlace } from "./places";

/** Rows that are selected, as a table of jobs needs them. */
export interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
  all: (ids: readonly string[]) => void;
}

interface Selected {
  selection: Selection;
  /** Whether everything that matches is meant, and not only these rows. */
  everything: boolean;
  selectEverything: () => void;
  clear: () => void;
}

/** What is selected in the list of this address; Back finds it again. */
export function useSelection(): Selected {
  const [start, note] = usePlace();
  const [ids, setIds] = useState(start.selected);
  const [everything, setEverything] = useState(false);
  useEffect(() => note({ selected: ids }), [ids]);

  const all = useCallback((some: readonly string[]) => {
    setEverything(false);
    setIds(new Set(some));
  }, []);
  const toggle = useCallback((id: string) => {
    setEverything(false);
    setIds((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  const clear = useCallback(() => all([]), [all]);
  const selectEverything = useCallback(() => setEverything(true), []);
  const selection = useMemo(() => ({ ids, toggle, all }), [ids, toggle, all]);
  return { selection, everything, selectEverything, clear };
}
