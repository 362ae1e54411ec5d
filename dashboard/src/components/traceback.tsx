import { useT } from "../i18n/i18n";

/** The exception of a traceback: the lines after the last frame, or the last line if there are no frames. */
export function exceptionOf(traceback: string): string {
  const lines = traceback.trimEnd().split("\n");
  const frame = lines.findLastIndex((line) => /^\s+File "/.test(line));
  const after = lines.findIndex((line, at) => at > frame && /^\S/.test(line));
  if (frame >= 0 && after >= 0) return lines.slice(after).join("\n");
  // An exception group is printed as a tree.
  return (lines.findLast((line) => /\w/.test(line)) ?? "").replace(/^[\s|+-]+/, "");
}

/** A traceback with its exception on top: in the text it comes last and would be scrolled out of view. */
export function Traceback({ children }: { children: string }) {
  const t = useT();
  return (
    <div className="overflow-hidden rounded-md bg-sunken font-mono text-xs leading-5">
      <p
        data-exception
        className="max-h-25 overflow-y-auto border-b border-line px-3 py-2 font-medium break-words whitespace-pre-wrap text-danger"
      >
        {exceptionOf(children)}
      </p>
      <pre tabIndex={0} aria-label={t("job.traceback")} className="max-h-96 overflow-auto p-3">
        {children}
      </pre>
    </div>
  );
}
