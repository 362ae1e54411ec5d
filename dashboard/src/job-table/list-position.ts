/** Remembers the scroll position and the selection of a list, for the Back button. */
import { useState } from "react";
import { address, isBackNavigation } from "../routing";

interface ListPosition {
  /** The scroll offset. */
  top: number;
  /** The row that the keyboard cursor is on. */
  cursor: string | null;
  selected: ReadonlySet<string>;
}

const START: ListPosition = { top: 0, cursor: null, selected: new Set() };
const MAX_POSITIONS = 50;
const positions = new Map<string, ListPosition>();

/** The last position in the list of this address, and a function that updates it. */
export function useListPosition(): [ListPosition, (change: Partial<ListPosition>) => void] {
  const [page] = useState(address);
  const [start] = useState(() => (isBackNavigation() && positions.get(page)) || START);
  const update = (change: Partial<ListPosition>) => {
    const position = { ...(positions.get(page) ?? start), ...change };
    positions.delete(page);
    positions.set(page, position);
    if (positions.size > MAX_POSITIONS) positions.delete(positions.keys().next().value!);
  };
  return [start, update];
}
