import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Confirm } from "../actions/confirm";
import { jsonError } from "../api/raw-json";
import { deleteSchedule, putSchedule, schedulesKey, useSchedules } from "../api/schedules";
import { useScope } from "../api/session";
import { Button, cx, Empty, errorMessage, ErrorPanel, Loading, Title } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { useDialog } from "../components/dialog-provider";
import { Icon } from "../components/icons";
import { JsonEditor } from "../components/json";
import { RelativeTime } from "../components/time";
import { useT } from "../i18n/i18n";
import { Link, toQueue, useTitle } from "../routing";

const ROW =
  "grid items-center gap-x-4 px-4 grid-cols-[minmax(0,1fr)_minmax(0,1fr)_5rem_2rem] md:grid-cols-[minmax(8rem,1.2fr)_minmax(7rem,1fr)_minmax(6rem,1fr)_minmax(6rem,1fr)_6rem_2rem] xl:grid-cols-[minmax(8rem,1.2fr)_minmax(7rem,1fr)_minmax(6rem,1fr)_minmax(6rem,1fr)_minmax(8rem,1fr)_6rem_2rem]";

export function Schedules() {
  const t = useT();
  useTitle(t("schedules.title"));
  const open = useDialog();
  const canAct = useScope("admin");
  const schedules = useSchedules();
  const add = canAct && (
    <Button variant="primary" onClick={() => open((close) => <NewSchedule onClose={close} />)}>
      <Icon name="plus" />
      {t("schedules.new")}
    </Button>
  );
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={add}>{t("schedules.title")}</Title>
      {schedules.isPending && <Loading />}
      {schedules.error && <ErrorPanel error={schedules.error} retry={() => void schedules.refetch()} />}
      {schedules.data?.length === 0 && (
        <Empty title={t("schedules.empty.title")}>{t("schedules.empty.text")}</Empty>
      )}
      {schedules.data && schedules.data.length > 0 && (
        <div className="px-4 pb-10 md:px-6">
          <div role="table" aria-label={t("schedules.title")} className="panel">
            <div role="row" className={cx(ROW, "head h-9 border-b border-line")}>
              <span role="columnheader">{t("column.name")}</span>
              <span role="columnheader">{t("column.cron")}</span>
              <span role="columnheader" className="max-md:hidden">{t("column.queue")}</span>
              <span role="columnheader" className="max-xl:hidden">{t("column.kind")}</span>
              <span role="columnheader" className="max-md:hidden">{t("column.timezone")}</span>
              <span role="columnheader" className="text-right">{t("column.next")}</span>
              <span role="columnheader">
                <span className="sr-only">{t("column.actions")}</span>
              </span>
            </div>
            {schedules.data.map((one) => (
              <div key={`${one.queue} ${one.name}`} role="row" className={cx(ROW, "min-h-10 border-b border-line last:border-0")}>
                <span role="cell" className="min-w-0 py-1.5">
                  <span className="block truncate font-medium" title={one.name}>{one.name}</span>
                  <span className="block truncate text-xs text-muted md:hidden">{one.queue}</span>
                </span>
                <span role="cell" className="font-mono text-xs md:truncate" title={`${one.cron} (${one.timezone})`}>{one.cron}</span>
                <span role="cell" className="truncate max-md:hidden">
                  <Link href={toQueue(one.queue, "queued")} className="hover:underline">
                    {one.queue}
                  </Link>
                </span>
                <span role="cell" className="truncate max-xl:hidden" title={one.kind}>{one.kind}</span>
                <span role="cell" className="truncate text-muted max-md:hidden" title={one.timezone}>{one.timezone}</span>
                <span role="cell" className="text-right">
                  <RelativeTime at={one.next_at} />
                </span>
                <span role="cell">{canAct && <DeleteButton queue={one.queue} name={one.name} />}</span>
              </div>
            ))}
          </div>
          <p className="mt-3 text-xs text-muted">{t("schedules.note")}</p>
        </div>
      )}
    </div>
  );
}

function DeleteButton({ queue, name }: { queue: string; name: string }) {
  const t = useT();
  const open = useDialog();
  const client = useQueryClient();
  const confirm = () =>
    open((close) => (
      <Confirm
        title={`${t("action.delete")} ${name}`}
        button={t("action.delete")}
        expected={name}
        act={async () => {
          await deleteSchedule(queue, name);
          await client.invalidateQueries({ queryKey: schedulesKey });
        }}
        onClose={close}
      />
    ));
  return (
    <Button variant="quiet" className="w-8 px-0" aria-label={`${t("action.delete")} ${name}`} onClick={confirm}>
      <Icon name="close" />
    </Button>
  );
}

function NewSchedule({ onClose }: { onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [queue, setQueue] = useState("");
  const [name, setName] = useState("");
  const [schedule, setSchedule] = useState({ cron: "0 3 * * *", kind: "default", timezone: "UTC" });
  const [payload, setPayload] = useState("{}");
  const create = useMutation({
    mutationFn: () => putSchedule(queue, name, schedule, payload),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["overview"] });
      await client.invalidateQueries({ queryKey: schedulesKey });
      onClose();
    },
  });
  const input = (value: string, change: (value: string) => void) => (
    <input className="field" required value={value} onChange={(event) => change(event.target.value)} />
  );
  return (
    <Dialog title={t("schedules.new")} onClose={onClose}>
      <DialogForm
        onSubmit={() => create.mutate()}
        onClose={onClose}
        button={t("action.save")}
        busy={create.isPending}
        disabled={!queue || !name || jsonError(payload) !== null}
        error={create.error ? errorMessage(create.error) : null}
      >
        <div className="grid grid-cols-2 gap-3">
          <Field label={t("column.queue")}>{input(queue, setQueue)}</Field>
          <Field label={t("column.name")}>{input(name, setName)}</Field>
          <Field label={t("column.cron")}>{input(schedule.cron, (cron) => setSchedule({ ...schedule, cron }))}</Field>
          <Field label={t("column.timezone")}>
            {input(schedule.timezone, (timezone) => setSchedule({ ...schedule, timezone }))}
          </Field>
          <Field label={t("column.kind")}>{input(schedule.kind, (kind) => setSchedule({ ...schedule, kind }))}</Field>
        </div>
        <JsonEditor label={t("form.payload")} value={payload} onChange={setPayload} />
      </DialogForm>
    </Dialog>
  );
}
