import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ClearDialog } from "../actions/clear-dialog";
import { EnqueueDialog } from "../actions/enqueue-dialog";
import { ImportDialog } from "../actions/import-dialog";
import { exportJobs, linesOf, type Which } from "../api/jobs";
import { overviewKey } from "../api/overview";
import { pauseQueue, resumeQueue } from "../api/queues";
import { useMay } from "../api/session";
import { save } from "../format/save";
import { plural, useT } from "../i18n/i18n";
import { Button } from "../parts/basics";
import { useDialog } from "../parts/dialogs";
import { Icon } from "../parts/icons";
import { Menu, type MenuItem } from "../parts/menu";
import { useToasts } from "../parts/toasts";

interface QueueMenuProps {
  queue: string;
  paused: boolean;
  /** Whether there is such a queue; if not, it can only be made. */
  there: boolean;
  which: Which;
}

/** What can be done with a queue as a whole. */
export function QueueMenu({ queue, paused, there, which }: QueueMenuProps) {
  const t = useT();
  const open = useDialog();
  const { say, complain } = useToasts();
  const client = useQueryClient();
  const [admin, produce] = [useMay("admin"), useMay("produce")];
  const refresh = () => client.invalidateQueries({ queryKey: overviewKey });

  const hold = () =>
    pauseQueue(queue).then(() => say(t("done.pause", { queue }), () => resumeQueue(queue).then(refresh)));
  const release = () =>
    resumeQueue(queue).then(() => say(t("done.resume", { queue }), () => pauseQueue(queue).then(refresh)));
  const turn = useMutation({
    mutationFn: () => (paused ? release() : hold()),
    onError: complain,
    onSettled: refresh,
  });
  const download = async () => {
    const content = await exportJobs(which);
    save(content, `${queue}-${which.state}.jsonl`);
    say(plural(t, "done.export", await linesOf(content)));
  };
  const clear = (action: "purge" | "drop") => () =>
    open((close) => <ClearDialog queue={queue} action={action} onClose={close} />);

  const grave: MenuItem[] = [
    { label: t("action.purge"), danger: true, onSelect: clear("purge") },
    { label: t("action.drop"), danger: true, onSelect: clear("drop") },
  ];
  const exporting = () => void download().catch(complain);
  const items: MenuItem[] = there ? [{ label: t("action.export"), onSelect: exporting }] : [];
  if (produce) {
    const start = () => open((close) => <ImportDialog queue={queue} onClose={close} />);
    items.unshift({ label: t("action.import"), onSelect: start });
  }
  return (
    <div className="flex items-center gap-2">
      {admin && there && (
        <Button onClick={() => turn.mutate()} disabled={turn.isPending}>
          {t(paused ? "action.resume" : "action.pause")}
        </Button>
      )}
      {produce && (
        <Button
          look="primary"
          onClick={() => open((close) => <EnqueueDialog queue={queue} onClose={close} />)}
        >
          <Icon name="plus" />
          {t("action.enqueue")}
        </Button>
      )}
      {items.length > 0 && (
        <Menu
          button={
            <Button look="quiet" className="w-8 px-0" aria-label={t("action.more")}>
              <Icon name="more" />
            </Button>
          }
          groups={[items, admin && there ? grave : []]}
        />
      )}
    </div>
  );
}
