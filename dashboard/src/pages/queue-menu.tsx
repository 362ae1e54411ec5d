import { useQueryClient } from "@tanstack/react-query";
import { Confirm } from "../actions/confirm";
import { EnqueueDialog } from "../actions/enqueue-dialog";
import { ImportDialog } from "../actions/import-dialog";
import { exportJobs, type Which } from "../api/jobs";
import { overviewKey } from "../api/overview";
import { dropQueue, pauseQueue, purgeQueue, resumeQueue } from "../api/queues";
import { useMay } from "../api/session";
import { save } from "../format/save";
import { plural, useT } from "../i18n/i18n";
import { Button } from "../parts/basics";
import { useDialog } from "../parts/dialogs";
import { Icon } from "../parts/icons";
import { Menu, type MenuItem } from "../parts/menu";
import { useToasts } from "../parts/toasts";
import { go } from "../routing";

interface QueueMenuProps {
  queue: string;
  paused: boolean;
  which: Which;
}

/** What can be done with a queue as a whole. */
export function QueueMenu({ queue, paused, which }: QueueMenuProps) {
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
  const turn = () => void (paused ? release() : hold()).catch(complain).finally(() => void refresh());
  const download = () =>
    void exportJobs(which)
      .then((content) => save(content, `${queue}-${which.state}.jsonl`))
      .catch(complain);
  const purge = () =>
    open((close) => (
      <Confirm
        title={`${t("action.purge")}: ${queue}`}
        button={t("action.purge")}
        word={queue}
        act={async () => {
          const { changed } = await purgeQueue(queue);
          say(plural(t, "bulk.done", changed, { action: t("action.purge") }));
        }}
        onClose={close}
      />
    ));

  const drop = () =>
    open((close) => (
      <Confirm
        title={`${t("action.drop")}: ${queue}`}
        button={t("action.drop")}
        word={queue}
        act={async () => {
          await dropQueue(queue);
          say(t("done.drop", { queue }));
          void refresh();
          go("/");
        }}
        onClose={close}
      >
        <p>{t("action.drop.text")}</p>
      </Confirm>
    ));

  const grave: MenuItem[] = [
    { label: t("action.purge"), danger: true, onSelect: purge },
    { label: t("action.drop"), danger: true, onSelect: drop },
  ];
  const items: MenuItem[] = [{ label: t("action.export"), onSelect: download }];
  if (produce) {
    const start = () => open((close) => <ImportDialog queue={queue} onClose={close} />);
    items.unshift({ label: t("action.import"), onSelect: start });
  }
  return (
    <div className="flex items-center gap-2">
      {admin && <Button onClick={turn}>{t(paused ? "action.resume" : "action.pause")}</Button>}
      {produce && (
        <Button
          look="primary"
          onClick={() => open((close) => <EnqueueDialog queue={queue} onClose={close} />)}
        >
          <Icon name="plus" />
          {t("action.enqueue")}
        </Button>
      )}
      <Menu
        button={
          <Button look="quiet" className="w-8 px-0" aria-label={t("action.more")}>
            <Icon name="more" />
          </Button>
        }
        groups={[items, admin ? grave : []]}
      />
    </div>
  );
}
