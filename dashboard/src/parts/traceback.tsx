import { useT } from "../i18n/i18n";

/** What was raised in the end: the lines behind the last frame, or the last words where there is none. */
export function raised(traceback: string): string {
  const lines = traceback.trimEnd().split("\n");
  const frame = lines.findLastIndex((line) => /^\s+File "/.test(line));
  const after = lines.findIndex((line, at) => at > frame && /^\S/.test(line));
  if (frame >= 0 && after >= 0) return lines.slice(after).join("\n");
  // The lines of a group of exceptions are drawn as a tree.
  return (lines.findLast((line) => /\w/.test(line)) ?? "").replace(/^[\s|+-]+/, "");
}

/** The error first, as it comes last in the text and would be below what is in view. */
export function Traceback({ children }: { children: string }) {
  const t = useT();
  return (
    <div className="overflow-hidden rounded-md bg-sunken font-mono text-xs leading-5">
      <p
        data-raised
        className="max-h-25 overflow-y-auto border-b border-line px-3 py-2 font-medium break-words whitespace-pre-wrap text-danger"
      >
        {raised(children)}
      </p>
      <pre tabIndex={0} aria-label={t("job.traceback")} className="max-h-96 overflow-auto p-3">
        {children}
      </pre>
    </div>
  );
}
