import { useMutation, useQueryClient } from "@tanstack/react-query";
import { PurgeDialog } from "../actions/purge-dialog";
import { EnqueueDialog } from "../actions/enqueue-dialog";
import { ImportDialog } from "../actions/import-dialog";
import { countLines, exportJobs, type JobQuery } from "../api/jobs";
import { overviewKey } from "../api/overview";
import { pauseQueue, resumeQueue } from "../api/queues";
import { useScope } from "../api/session";
import { Button } from "../components/basics";
import { useDialog } from "../components/dialog-provider";
import { Icon } from "../components/icons";
import { Menu, type MenuItem } from "../components/menu";
import { useToasts } from "../components/toasts";
import { download } from "../format/download";
import { plural, useT } from "../i18n/i18n";

interface QueueMenuProps {
  queue: string;
  paused: boolean;
  /** A queue that does not exist yet can only be created. */
  exists: boolean;
  jobQuery: JobQuery;
}

/** The actions on a whole queue. */
export function QueueMenu({ queue, paused, exists, jobQuery }: QueueMenuProps) {
  const t = useT();
  const open = useDialog();
  const { showSuccess, showError } = useToasts();
  const client = useQueryClient();
  const [admin, produce] = [useScope("admin"), useScope("produce")];
  const refresh = () => client.invalidateQueries({ queryKey: overviewKey });

  const pause = () =>
    pauseQueue(queue).then(() => showSuccess(t("done.pause", { queue }), () => resumeQueue(queue).then(refresh)));
  const resume = () =>
    resumeQueue(queue).then(() => showSuccess(t("done.resume", { queue }), () => pauseQueue(queue).then(refresh)));
  const toggle = useMutation({
    mutationFn: () => (paused ? resume() : pause()),
    onError: showError,
    onSettled: refresh,
  });
  const exportMatching = async () => {
    const content = await exportJobs(jobQuery);
    download(content, `${queue}-${jobQuery.state}.jsonl`);
    showSuccess(plural(t, "done.export", await countLines(content)));
  };
  const clear = (action: "purge" | "drop") => () =>
    open((close) => <PurgeDialog queue={queue} action={action} onClose={close} />);

  const destructive: MenuItem[] = [
    { label: t("action.purge"), danger: true, onSelect: clear("purge") },
    { label: t("action.drop"), danger: true, onSelect: clear("drop") },
  ];
  const exportAll = () => void exportMatching().catch(showError);
  const items: MenuItem[] = exists ? [{ label: t("action.export"), onSelect: exportAll }] : [];
  if (produce) {
    const start = () => open((close) => <ImportDialog queue={queue} onClose={close} />);
    items.unshift({ label: t("action.import"), onSelect: start });
  }
  return (
    <div className="flex items-center gap-2">
      {admin && exists && (
        <Button onClick={() => toggle.mutate()} disabled={toggle.isPending}>
          {t(paused ? "action.resume" : "action.pause")}
        </Button>
      )}
      {produce && (
        <Button
          variant="primary"
          onClick={() => open((close) => <EnqueueDialog queue={queue} onClose={close} />)}
        >
          <Icon name="plus" />
          {t("action.enqueue")}
        </Button>
      )}
      {items.length > 0 && (
        <Menu
          button={
            <Button variant="quiet" className="w-8 px-0" aria-label={t("action.more")}>
              <Icon name="more" />
            </Button>
          }
          groups={[items, admin && exists ? destructive : []]}
        />
      )}
    </div>
  );
}
