import { Link, toJob } from "../routing";
import { cx } from "./basics";

/** Characters at the end that are always shown: ids made one after the other begin alike. */
const END = 8;

/** An id. Where there is no room for all of it, its middle is left out; a selection copies the whole. */
export function Id({ children, className }: { children: string; className?: string }) {
  const letters = [...children];
  const [begin, end] = [letters.slice(0, -END).join(""), letters.slice(-END).join("")];
  return (
    <span title={children} className={cx("block overflow-hidden font-mono whitespace-pre", className)}>
      {begin && <span className="inline-block max-w-[calc(100%-8ch)] truncate align-bottom whitespace-pre!">{begin}</span>}
      {end}
    </span>
  );
}

/** A link to a job by its id. */
export function JobLink({ queue, id, className }: { queue: string; id: string; className?: string }) {
  return (
    // Its two parts would be read out as two words.
    <Link href={toJob(queue, id)} aria-label={id} className={cx("block min-w-0 text-xs hover:underline", className)}>
      <Id>{id}</Id>
    </Link>
  );
}
