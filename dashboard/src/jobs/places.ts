/** Where one was in a list, so that Back leads to the same row. */
import { useState } from "react";
import { address, hasReturned } from "../routing";

interface Place {
  /** How far it was scrolled. */
  top: number;
  /** The row that the keys had led to. */
  cursor: string | null;
  selected: ReadonlySet<string>;
}

const START: Place = { top: 0, cursor: null, selected: new Set() };
const MOST = 50;
const places = new Map<string, Place>();

/** The place in the list of this address, and how to note another one. */
export function usePlace(): [Place, (change: Partial<Place>) => void] {
  const [here] = useState(address);
  const [start] = useState(() => (hasReturned() && places.get(here)) || START);
  const note = (change: Partial<Place>) => {
    const place = { ...(places.get(here) ?? start), ...change };
    places.delete(here);
    places.set(here, place);
    if (places.size > MOST) places.delete(places.keys().next().value!);
  };
  return [start, note];
}
