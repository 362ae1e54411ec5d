import { useKinds, type Which } from "../api/jobs";
import { useT } from "../i18n/i18n";
import { cx } from "../parts/basics";
import { Typed } from "../parts/typed";
import { setQuery } from "../routing";

export function Filters({ which, grouped }: { which: Which; grouped: boolean }) {
  const t = useT();
  const kinds = useKinds(which.queue);
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2 md:px-6">
      <Typed name="kind" value={which.kind} label={t("queue.filter.kind")} className="w-36 max-sm:w-34" known={kinds} />
      <Typed name="text" value={which.text} label={t("queue.filter.text")} className="w-52 max-sm:w-0 max-sm:min-w-40 max-sm:flex-1" />
      {which.state === "failed" && <ViewSwitch grouped={grouped} />}
    </div>
  );
}

function ViewSwitch({ grouped }: { grouped: boolean }) {
  const t = useT();
  const option = (label: string, on: boolean, by: string) => (
    <button
      type="button"
      aria-pressed={on}
      onClick={() => setQuery({ by })}
      className={cx(
        "h-6.5 rounded px-2.5 font-medium",
        on ? "bg-surface text-ink shadow-sm dark:bg-line-strong" : "text-muted hover:text-ink",
      )}
    >
      {label}
    </button>
  );
  return (
    <div role="group" aria-label={t("queue.view")} className="ml-auto flex rounded-md bg-sunken p-0.5">
      {option(t("queue.byError"), grouped, "")}
      {option(t("queue.byJob"), !grouped, "job")}
    </div>
  );
}
