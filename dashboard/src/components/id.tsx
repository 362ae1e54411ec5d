import { Link, toJob } from "../routing";
import { cx } from "./basics";

/** Characters at the end that are always visible: ids created one after another begin alike. */
const TAIL = 8;

/** An id. If it does not fit, its middle is left out; copying a selection gives the whole id. */
export function Id({ children, className }: { children: string; className?: string }) {
  const characters = [...children];
  const [head, tail] = [characters.slice(0, -TAIL).join(""), characters.slice(-TAIL).join("")];
  return (
    <span title={children} className={cx("block overflow-hidden font-mono whitespace-pre", className)}>
      {head && <span className="inline-block max-w-[calc(100%-8ch)] truncate align-bottom whitespace-pre!">{head}</span>}
      {tail}
    </span>
  );
}

/** A link to a job by its id. */
export function JobLink({ queue, id, className }: { queue: string; id: string; className?: string }) {
  return (
    // A screen reader would read its two parts as two words.
    <Link href={toJob(queue, id)} aria-label={id} className={cx("block min-w-0 text-xs hover:underline", className)}>
      <Id>{id}</Id>
    </Link>
  );
}
