import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { importJobs } from "../api/jobs";
import { errorMessage } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { useToasts } from "../components/toasts";
import { plural, useT } from "../i18n/i18n";

export function ImportDialog({ queue, onClose }: { queue: string; onClose: () => void }) {
  const t = useT();
  const { showSuccess } = useToasts();
  const [file, setFile] = useState<File | null>(null);
  const send = useMutation({
    mutationFn: () => importJobs(queue, file!),
    onSuccess: (done) => {
      if (done.problem) return;
      showSuccess(plural(t, "form.imported", done.enqueued ?? 0));
      onClose();
    },
  });
  const rejected = send.data?.problem && {
    line: send.data.stopped_at ?? 0,
    detail: send.data.problem.detail,
  };
  const importedCount = send.data?.enqueued ?? 0;
  return (
    <Dialog title={`${t("action.import")}: ${queue}`} onClose={onClose}>
      <DialogForm
        onSubmit={() => send.mutate()}
        onClose={onClose}
        button={t("action.import")}
        busy={send.isPending}
        disabled={file === null}
        error={send.error ? errorMessage(send.error) : rejected ? plural(t, "form.stopped", importedCount, rejected) : null}
      >
        <Field label={t("form.file")}>
          <input
            type="file"
            accept=".jsonl,.ndjson,.json,application/x-ndjson"
            className="field h-auto py-1.5"
            onChange={(event) => setFile(event.target.files?.[0] ?? null)}
          />
        </Field>
        <pre className="rounded-md bg-sunken p-3 font-mono text-xs break-words whitespace-pre-wrap">
          {'{"payload": {"to": "ann@example.com"}, "id": "mail-1", "kind": "welcome"}'}
        </pre>
      </DialogForm>
    </Dialog>
  );
}
