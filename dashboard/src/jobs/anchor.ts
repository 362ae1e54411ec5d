import { type RefObject, useLayoutEffect, useRef } from "react";

/** Where a list should be scrolled to, so that what was read stays where it was.
 *
 * `before` and `after` are the ids of the rows; `at` is the first row in view. If that one is
 * gone, the next that is still there takes its place.
 */
export function placeOf(before: readonly string[], after: readonly string[], at: number): number {
  const places = new Map(after.map((id, place) => [id, place]));
  for (let old = at; old < before.length; old += 1) {
    const place = places.get(before[old]!);
    if (place !== undefined) return place;
  }
  return Math.min(at, after.length);
}

/** Keeps what is being read in its place while rows come and go above it. */
export function useAnchor(
  scroller: RefObject<HTMLElement | null>,
  ids: readonly string[],
  height: number,
): void {
  const before = useRef(ids);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && element.scrollTop > 0 && before.current !== ids) {
      const at = Math.floor(element.scrollTop / height);
      const place = placeOf(before.current, ids, at);
      if (place !== at) element.scrollTop += (place - at) * height;
    }
    before.current = ids;
  }, [scroller, ids, height]);
}
