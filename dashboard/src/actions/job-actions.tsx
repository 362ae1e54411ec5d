/** The actions on one job, depending on its state. */
import { useQueryClient } from "@tanstack/react-query";
import type { State } from "../api/client";
import {
  cancelJob,
  deleteJob,
  editJob,
  type Job,
  jobKey,
  redriveJob,
  restorable,
  restoreJob,
  TERMINAL,
} from "../api/jobs";
import { type JobAct, useJobActs } from "../api/session";
import { useDialog } from "../components/dialog-provider";
import { useToasts } from "../components/toasts";
import { useT } from "../i18n/i18n";
import { navigate, toQueue } from "../routing";
import { Confirm } from "./confirm";
import { EditDialog } from "./edit-dialog";
import { MoveDialog } from "./move-dialog";

export type JobAction = "redrive" | "redriveEdited" | "runNow" | "edit" | "move" | "cancel" | "delete";

/** The actions that the act `edit` offers: those of a failed job redrive it, those of a waiting one keep it waiting. */
function editActions(state: State): readonly JobAction[] {
  if (state === "failed") return ["redriveEdited"];
  if (TERMINAL.includes(state)) return [];
  return state === "queued" ? ["edit"] : ["runNow", "edit"];
}

/** The actions this caller may take on a job of this state, the most likely one first. */
export function useJobActionsFor(state: State): readonly JobAction[] {
  return useJobActs(state).flatMap((act: JobAct) => (act === "edit" ? editActions(state) : [act]));
}

export function useJobActions(queue: string): (action: JobAction, job: Job) => void {
  const t = useT();
  const open = useDialog();
  const { showSuccess, showError } = useToasts();
  const client = useQueryClient();
  const refresh = (id: string) => client.invalidateQueries({ queryKey: jobKey(queue, id) });

  const cancel = async (job: Job) => {
    const { state } = await cancelJob(queue, job.id);
    const undo = restorable(job) ? () => restoreJob(queue, job).then(() => refresh(job.id)) : undefined;
    if (state === "cancelled") showSuccess(t("done.cancel", { id: job.id }), undo);
    else showSuccess(t("done.cancelRequested", { id: job.id }));
  };
  const handlers: Record<JobAction, (job: Job) => Promise<unknown> | void> = {
    cancel,
    redrive: (job) => redriveJob(queue, job.id).then(() => showSuccess(t("done.redrive", { id: job.id }))),
    runNow: (job) => editJob(queue, job.id, { delay: 0 }).then(() => showSuccess(t("done.runNow", { id: job.id }))),
    redriveEdited: (job) =>
      open((close) => <EditDialog queue={queue} job={job} redrive onClose={close} />),
    edit: (job) => open((close) => <EditDialog queue={queue} job={job} onClose={close} />),
    move: (job) => open((close) => <MoveDialog queue={queue} id={job.id} onClose={close} />),
    delete: (job) =>
      open((close) => (
        <Confirm
          title={`${t("action.delete")} ${job.id}`}
          button={t("action.delete")}
          expected={job.id}
          act={async () => {
            await deleteJob(queue, job.id);
            showSuccess(t("done.delete", { id: job.id }));
            navigate(toQueue(queue, job.state));
          }}
          onClose={close}
        />
      )),
  };
  return (action, job) => {
    void Promise.resolve(handlers[action](job)).catch(showError).finally(() => refresh(job.id));
  };
}
