import { BulkDialog } from "../actions/bulk-dialog";
import { CompareDialog } from "../actions/compare-dialog";
import type { Which } from "../api/jobs";
import type { BulkAction, Chosen } from "../api/queues";
import { useActs } from "../api/session";
import { count } from "../format/spans";
import { useT } from "../i18n/i18n";
import { Button } from "../parts/basics";
import { useDialog } from "../parts/dialogs";

/** The filter that a view shows, for the service. */
export function chosenBy(which: Which, ids: readonly string[] | null): Chosen {
  const chosen: Chosen = { states: [which.state] };
  if (ids) return { ...chosen, ids: [...ids] };
  if (which.kind) chosen.kinds = [which.kind];
  if (which.text) chosen.text = which.text;
  return chosen;
}

interface BarProps {
  which: Which;
  ids: readonly string[];
  /** Whether there is nothing beyond what is selected. */
  whole: boolean;
  everything: boolean;
  onEverything: () => void;
  onClear: () => void;
}

/** What can be done with the rows that are selected, or with everything that matches. */
export function BulkBar({ which, ids, whole, everything, onEverything, onClear }: BarProps) {
  const t = useT();
  const open = useDialog();
  const acts = useActs(which.state).filter((act) => act !== "edit");
  if (ids.length === 0) return null;
  const start = (action: BulkAction) => {
    const chosen = chosenBy(which, everything ? null : ids);
    open((close) => (
      <BulkDialog
        queue={which.queue}
        action={action}
        which={chosen}
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
      {!everything && !whole && (
        <Button look="link" onClick={onEverything}>
          {t("bulk.everything")}
        </Button>
      )}
      <Button look="quiet" onClick={onClear}>
        {t("bulk.clear")}
      </Button>
      <div className="ml-auto flex flex-wrap gap-2">
        {ids.length === 2 && !everything && (
          <Button
            onClick={() =>
              open((close) => (
                <CompareDialog queue={which.queue} ids={[first!, second!]} onClose={close} />
              ))
            }
          >
            {t("action.compare")}
          </Button>
        )}
        {acts.map((action) => (
          <Button
            key={action}
            look={action === "delete" ? "danger" : action === "redrive" ? "primary" : "plain"}
            onClick={() => start(action)}
          >
            {t(`action.${action}`)}
          </Button>
        ))}
      </div>
    </div>
  );
}
