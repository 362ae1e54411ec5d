/** The DLQ grouped by error: one row per cause, with actions on all of its jobs. */
import { BulkDialog } from "../actions/bulk-dialog";
import { type BulkFilter, type ErrorGroup, useErrorGroups } from "../api/queues";
import { useScope } from "../api/session";
import { Button, Empty, ErrorPanel, Loading } from "../components/basics";
import { useDialog } from "../components/dialog-provider";
import { Icon } from "../components/icons";
import { JobLink } from "../components/id";
import { RelativeTime } from "../components/time";
import { Traceback } from "../components/traceback";
import { count } from "../format/numbers";
import { useT } from "../i18n/i18n";

interface GroupsProps {
  queue: string;
  kind: string;
  text: string;
}

export function ErrorGroups({ queue, kind, text }: GroupsProps) {
  const t = useT();
  const groups = useErrorGroups(queue, kind, text);
  if (groups.isPending) return <Loading />;
  if (!groups.data) return <ErrorPanel error={groups.error} retry={() => void groups.refetch()} />;
  if (groups.data.groups.length === 0)
    return <Empty>{t(kind || text ? "empty.filtered" : "empty.failed")}</Empty>;
  const filter: BulkFilter = { states: ["failed"], ...(kind && { kinds: [kind] }), ...(text && { text }) };
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      {!groups.data.complete && (
        <p className="bg-warn-soft px-4 py-2 text-warn md:px-6">{t("dlq.incomplete")}</p>
      )}
      <ul aria-label={t("dlq.groups")}>
        {groups.data.groups.map((group) => (
          <Group key={group.fingerprint} queue={queue} group={group} filter={filter} />
        ))}
      </ul>
    </div>
  );
}

function Group({ queue, group, filter }: { queue: string; group: ErrorGroup; filter: BulkFilter }) {
  const t = useT();
  return (
    <li className="border-b border-line">
      <details className="group">
        <summary
          data-focusable-row
          className="grid cursor-pointer grid-cols-[1rem_auto_minmax(0,1fr)] items-start gap-x-3 px-4 py-3 hover:bg-hover group-open:hover:bg-transparent md:grid-cols-[1rem_3.5rem_minmax(0,1fr)_9rem_9rem] md:px-6 [&::-webkit-details-marker]:hidden"
        >
          <span className="pt-0.5 text-faint transition-transform group-open:rotate-90">
            <Icon name="right" />
          </span>
          <span className="text-right font-semibold text-danger tabular-nums">{count(group.count)}</span>
          <span className="min-w-0">
            <span className="block truncate font-medium">{group.type || "—"}</span>
            <span className="block truncate text-muted group-open:overflow-visible group-open:break-words group-open:whitespace-normal">
              {group.message}
            </span>
            <span className="mt-0.5 flex flex-wrap gap-x-4 text-xs text-muted md:hidden">
              <span>
                {t("dlq.first")} <RelativeTime at={group.first_at} />
              </span>
              <span>
                {t("dlq.last")} <RelativeTime at={group.last_at} />
              </span>
            </span>
          </span>
          <span className="text-right text-muted max-md:hidden">
            <span className="head block">{t("dlq.first")}</span>
            <RelativeTime at={group.first_at} />
          </span>
          <span className="text-right text-muted max-md:hidden">
            <span className="head block">{t("dlq.last")}</span>
            <RelativeTime at={group.last_at} />
          </span>
        </summary>
        <div className="flex flex-col gap-3 px-4 pt-1 pb-4 md:pr-6 md:pl-[7.5rem]">
          <dl className="flex flex-wrap gap-x-8 gap-y-1">
            <Field name={t("dlq.kinds")}>{group.kinds.join(", ")}</Field>
            <Field name={t("dlq.sample")}>
              <JobLink queue={queue} id={group.sample} className="text-accent" />
            </Field>
          </dl>
          {group.traceback && <Traceback>{group.traceback}</Traceback>}
          <GroupActions queue={queue} filter={{ ...filter, fingerprint: group.fingerprint }} />
        </div>
      </details>
    </li>
  );
}

function Field({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="flex max-w-full items-baseline gap-2">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </div>
  );
}

function GroupActions({ queue, filter }: { queue: string; filter: BulkFilter }) {
  const t = useT();
  const open = useDialog();
  if (!useScope("admin")) return null;
  const start = (action: "redrive" | "delete") =>
    open((close) => <BulkDialog queue={queue} action={action} filter={filter} onClose={close} />);
  return (
    <div className="flex gap-2">
      <Button variant="primary" onClick={() => start("redrive")}>
        {t("action.redrive")}
      </Button>
      <Button variant="danger" onClick={() => start("delete")}>
        {t("action.delete")}
      </Button>
    </div>
  );
}
