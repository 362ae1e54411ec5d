import { useCallback, useEffect, useMemo, useState } from "react";
import { useListPosition } from "./list-position";

/** The selected rows of a job table. */
export interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
  all: (ids: readonly string[]) => void;
}

interface SelectionState {
  selection: Selection;
  /** Whether every matching job is selected, also those that are not loaded. */
  everything: boolean;
  selectEverything: () => void;
  clear: () => void;
}

/** The selection in the list of this address; the Back button restores it. */
export function useSelection(): SelectionState {
  const [position, updatePosition] = useListPosition();
  const [ids, setIds] = useState(position.selected);
  const [everything, setEverything] = useState(false);
  useEffect(() => updatePosition({ selected: ids }), [ids]);

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
