import { BulkDialog } from "../actions/bulk-dialog";
import { CompareDialog } from "../actions/compare-dialog";
import type { JobQuery } from "../api/jobs";
import type { BulkAction, BulkFilter } from "../api/queues";
import { useJobActs } from "../api/session";
import { Button } from "../components/basics";
import { useDialog } from "../components/dialog-provider";
import { count } from "../format/numbers";
import { useT } from "../i18n/i18n";

/** The filter of a bulk action: these jobs, or everything that the view matches. */
export function bulkFilter(jobQuery: JobQuery, ids: readonly string[] | null): BulkFilter {
  const filter: BulkFilter = { states: [jobQuery.state] };
  if (ids) return { ...filter, ids: [...ids] };
  if (jobQuery.kind) filter.kinds = [jobQuery.kind];
  if (jobQuery.text) filter.text = jobQuery.text;
  return filter;
}

interface BarProps {
  jobQuery: JobQuery;
  ids: readonly string[];
  /** Whether every matching job is loaded and selected. */
  complete: boolean;
  everything: boolean;
  onEverything: () => void;
  onClear: () => void;
}

/** Actions on the selected jobs, or on all that match. */
export function BulkBar({ jobQuery, ids, complete, everything, onEverything, onClear }: BarProps) {
  const t = useT();
  const open = useDialog();
  const actions = useJobActs(jobQuery.state).filter((act) => act !== "edit");
  if (ids.length === 0) return null;
  const start = (action: BulkAction) => {
    const filter = bulkFilter(jobQuery, everything ? null : ids);
    open((close) => (
      <BulkDialog
        queue={jobQuery.queue}
        action={action}
        filter={filter}
        onClose={close}
        onDone={onClear}
      />
    ));
  };
  const [first, second] = ids;
  return (
    <div
      role="region"
      aria-label={t("bulk.selected", { n: ids.length })}
      className="arrive flex shrink-0 flex-wrap items-center gap-2 border-t border-line bg-surface px-4 py-2 md:px-6"
    >
      <span className="font-medium">
        {everything ? t("bulk.everythingSelected") : t("bulk.selected", { n: count(ids.length) })}
      </span>
      {!everything && !complete && (
        <Button variant="link" onClick={onEverything}>
          {t("bulk.everything")}
        </Button>
      )}
      <Button variant="quiet" onClick={onClear}>
        {t("bulk.clear")}
      </Button>
      <div className="ml-auto flex flex-wrap gap-2">
        {ids.length === 2 && !everything && (
          <Button
            onClick={() =>
              open((close) => (
                <CompareDialog queue={jobQuery.queue} ids={[first!, second!]} onClose={close} />
              ))
            }
          >
            {t("action.compare")}
          </Button>
        )}
        {actions.map((action) => (
          <Button
            key={action}
            variant={action === "delete" ? "danger" : action === "redrive" ? "primary" : "plain"}
            onClick={() => start(action)}
          >
            {t(`action.${action}`)}
          </Button>
        ))}
      </div>
    </div>
  );
}
