import { useOverview } from "../api/overview";
import { useT } from "../i18n/i18n";
import { setQuery } from "../routing";

/** A filter by queue, kept in the address. */
export function QueueSelect({ value }: { value: string }) {
  const t = useT();
  const queues = useOverview().data?.queues ?? [];
  return (
    <select
      aria-label={t("column.queue")}
      className="field w-40"
      value={value}
      onChange={(event) => setQuery({ queue: event.target.value })}
    >
      <option value="">{t("events.anyQueue")}</option>
      {queues.map((one) => (
        <option key={one.queue}>{one.queue}</option>
      ))}
    </select>
  );
}
