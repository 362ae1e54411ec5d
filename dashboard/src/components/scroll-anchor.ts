import { type RefObject, useLayoutEffect, useRef } from "react";

/** The index to scroll to so that the first visible row stays where it is.
 *
 * `before` and `after` are the ids of the rows; `at` is the first visible row. If that one was
 * removed, the next one that still exists is used.
 */
export function anchoredIndex(before: readonly string[], after: readonly string[], at: number): number {
  const indexes = new Map(after.map((id, index) => [id, index]));
  for (let old = at; old < before.length; old += 1) {
    const index = indexes.get(before[old]!);
    if (index !== undefined) return index;
  }
  return Math.min(at, after.length);
}

/** Keeps the visible rows in place while rows are added and removed above them. */
export function useScrollAnchor(
  scroller: RefObject<HTMLElement | null>,
  ids: readonly string[],
  height: number,
): void {
  const before = useRef(ids);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && element.scrollTop > 0 && before.current !== ids) {
      const at = Math.floor(element.scrollTop / height);
      const index = anchoredIndex(before.current, ids, at);
      if (index !== at) element.scrollTop += (index - at) * height;
    }
    before.current = ids;
  }, [scroller, ids, height]);
}
