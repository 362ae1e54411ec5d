/** The DLQ by what went wrong: see a cause once, and deal with all that it has hit. */
import { BulkDialog } from "../actions/bulk-dialog";
import { type Chosen, type ErrorGroup, useErrorGroups } from "../api/queues";
import { useMay } from "../api/session";
import { count } from "../format/spans";
import { useT } from "../i18n/i18n";
import { Button, Empty, Trouble, Waiting } from "../parts/basics";
import { useDialog } from "../parts/dialogs";
import { Icon } from "../parts/icons";
import { JobLink } from "../parts/id";
import { Relative } from "../parts/times";
import { Traceback } from "../parts/traceback";

interface GroupsProps {
  queue: string;
  kind: string;
  text: string;
}

export function ErrorGroups({ queue, kind, text }: GroupsProps) {
  const t = useT();
  const groups = useErrorGroups(queue, kind, text);
  if (groups.isPending) return <Waiting />;
  if (!groups.data) return <Trouble error={groups.error} retry={() => void groups.refetch()} />;
  if (groups.data.groups.length === 0)
    return <Empty>{t(kind || text ? "empty.filtered" : "empty.failed")}</Empty>;
  const which: Chosen = { states: ["failed"], ...(kind && { kinds: [kind] }), ...(text && { text }) };
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      {!groups.data.complete && (
        <p className="bg-warn-soft px-4 py-2 text-warn md:px-6">{t("dlq.incomplete")}</p>
      )}
      <ul aria-label={t("dlq.groups")}>
        {groups.data.groups.map((group) => (
          <Group key={group.fingerprint} queue={queue} group={group} which={which} />
        ))}
      </ul>
    </div>
  );
}

function Group({ queue, group, which }: { queue: string; group: ErrorGroup; which: Chosen }) {
  const t = useT();
  return (
    <li className="border-b border-line">
      <details className="group">
        <summary
          data-walk
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
                {t("dlq.first")} <Relative at={group.first_at} />
              </span>
              <span>
                {t("dlq.last")} <Relative at={group.last_at} />
              </span>
            </span>
          </span>
          <span className="text-right text-muted max-md:hidden">
            <span className="head block">{t("dlq.first")}</span>
            <Relative at={group.first_at} />
          </span>
          <span className="text-right text-muted max-md:hidden">
            <span className="head block">{t("dlq.last")}</span>
            <Relative at={group.last_at} />
          </span>
        </summary>
        <div className="flex flex-col gap-3 px-4 pt-1 pb-4 md:pr-6 md:pl-[7.5rem]">
          <dl className="flex flex-wrap gap-x-8 gap-y-1">
            <Fact name={t("dlq.kinds")}>{group.kinds.join(", ")}</Fact>
            <Fact name={t("dlq.sample")}>
              <JobLink queue={queue} id={group.sample} className="text-accent" />
            </Fact>
          </dl>
          {group.traceback && <Traceback>{group.traceback}</Traceback>}
          <GroupActions queue={queue} which={{ ...which, fingerprint: group.fingerprint }} />
        </div>
      </details>
    </li>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="flex max-w-full items-baseline gap-2">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </div>
  );
}

function GroupActions({ queue, which }: { queue: string; which: Chosen }) {
  const t = useT();
  const open = useDialog();
  if (!useMay("admin")) return null;
  const start = (action: "redrive" | "delete") =>
    open((close) => <BulkDialog queue={queue} action={action} which={which} onClose={close} />);
  return (
    <div className="flex gap-2">
      <Button look="primary" onClick={() => start("redrive")}>
        {t("action.redrive")}
      </Button>
      <Button look="danger" onClick={() => start("delete")}>
        {t("action.delete")}
      </Button>
    </div>
  );
}
