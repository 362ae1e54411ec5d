import { type JobQuery, useKinds } from "../api/jobs";
import { cx } from "../components/basics";
import { SearchInput } from "../components/search-input";
import { useT } from "../i18n/i18n";
import { setQuery } from "../routing";

export function Filters({ jobQuery, grouped }: { jobQuery: JobQuery; grouped: boolean }) {
  const t = useT();
  const kinds = useKinds(jobQuery.queue);
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line px-4 py-2 md:px-6">
      <SearchInput name="kind" value={jobQuery.kind} label={t("queue.filter.kind")} className="w-36 max-sm:w-34" suggestions={kinds} />
      <SearchInput name="text" value={jobQuery.text} label={t("queue.filter.text")} className="w-52 max-sm:w-0 max-sm:min-w-40 max-sm:flex-1" />
      {jobQuery.state === "failed" && <ViewSwitch grouped={grouped} />}
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
