/** What can be done to one job, by its state; each act has one name, here as everywhere. */
import { useQueryClient } from "@tanstack/react-query";
import type { State } from "../api/client";
import {
  cancelJob,
  deleteJob,
  ENDED,
  editJob,
  type Job,
  jobKey,
  redriveJob,
  restorable,
  restoreJob,
} from "../api/jobs";
import { type JobAct, useActs } from "../api/session";
import { useT } from "../i18n/i18n";
import { useDialog } from "../parts/dialogs";
import { useToasts } from "../parts/toasts";
import { go, toQueue } from "../routing";
import { Confirm } from "./confirm";
import { EditDialog } from "./edit-dialog";
import { MoveDialog } from "./move-dialog";

export type JobAction = "redrive" | "redriveEdited" | "retry" | "edit" | "move" | "cancel" | "delete";

/** What an edit is offered as: of a job that waits for its time, and of one that has ended. */
function edits(state: State): readonly JobAction[] {
  if (state === "failed") return ["redriveEdited"];
  if (ENDED.includes(state)) return [];
  return state === "queued" ? ["edit"] : ["retry", "edit"];
}

/** The acts that this caller may take on this job; the first is the one that is most likely wanted. */
export function useFitting(state: State): readonly JobAction[] {
  return useActs(state).flatMap((act: JobAct) => (act === "edit" ? edits(state) : [act]));
}

export function useJobActions(queue: string): (action: JobAction, job: Job) => void {
  const t = useT();
  const open = useDialog();
  const { say, complain } = useToasts();
  const client = useQueryClient();
  const refresh = (id: string) => client.invalidateQueries({ queryKey: jobKey(queue, id) });

  const cancel = async (job: Job) => {
    const { state } = await cancelJob(queue, job.id);
    const undo = restorable(job) ? () => restoreJob(queue, job).then(() => refresh(job.id)) : undefined;
    if (state === "cancelled") say(t("done.cancel", { id: job.id }), undo);
    else say(t("done.cancelAsked", { id: job.id }));
  };
  const acts: Record<JobAction, (job: Job) => Promise<unknown> | void> = {
    cancel,
    redrive: (job) => redriveJob(queue, job.id).then(() => say(t("done.redrive", { id: job.id }))),
    retry: (job) => editJob(queue, job.id, { delay: 0 }).then(() => say(t("done.retry", { id: job.id }))),
    redriveEdited: (job) =>
      open((close) => <EditDialog queue={queue} job={job} redrive onClose={close} />),
    edit: (job) => open((close) => <EditDialog queue={queue} job={job} onClose={close} />),
    move: (job) => open((close) => <MoveDialog queue={queue} id={job.id} onClose={close} />),
    delete: (job) =>
      open((close) => (
        <Confirm
          title={`${t("action.delete")} ${job.id}`}
          button={t("action.delete")}
          word={job.id}
          act={async () => {
            await deleteJob(queue, job.id);
            say(t("done.delete", { id: job.id }));
            go(toQueue(queue, job.state));
          }}
          onClose={close}
        />
      )),
  };
  return (action, job) => {
    void Promise.resolve(acts[action](job)).catch(complain).finally(() => refresh(job.id));
  };
}
