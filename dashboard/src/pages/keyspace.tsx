import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Confirm } from "../actions/confirm";
import { deleteKey, type KeyEntry, keyspaceKey, useKeyspace, writeKey } from "../api/keyspace";
import { jsonError } from "../api/raw-json";
import { useScope } from "../api/session";
import { Button, cx, Empty, errorMessage, ErrorPanel, Loading, Title } from "../components/basics";
import { Dialog, DialogForm, Field } from "../components/dialog";
import { useDialog } from "../components/dialog-provider";
import { Icon } from "../components/icons";
import { JsonEditor } from "../components/json";
import { Menu } from "../components/menu";
import { SearchInput } from "../components/search-input";
import { useT } from "../i18n/i18n";
import { useAddress, useTitle } from "../routing";

/** The parts of a key typed with slashes. */
export const partsOf = (name: string): string[] => name.split("/").filter(Boolean);

const ROW =
  "grid items-center gap-x-4 px-4 grid-cols-[minmax(0,1fr)_2rem] md:grid-cols-[minmax(8rem,1fr)_minmax(0,1fr)_5rem_2rem]";

/** Whole parts, which the service filters by, and the start of the next part, filtered here. */
export function prefixOf(name: string): { parts: string[]; rest: string } {
  const parts = partsOf(name);
  const rest = name.endsWith("/") ? "" : (parts.pop() ?? "");
  return { parts, rest };
}

export function Keyspace() {
  const t = useT();
  const open = useDialog();
  const canAct = useScope("admin");
  const prefix = useAddress().query.get("prefix") ?? "";
  const { parts, rest } = prefixOf(prefix);
  const keys = useKeyspace(parts);
  const found = keys.data?.filter((entry) => (entry.key[parts.length] ?? "").startsWith(rest));
  useTitle(t("keyspace.title"));
  const add = canAct && (
    <Button variant="primary" onClick={() => open((close) => <KeyDialog onClose={close} />)}>
      <Icon name="plus" />
      {t("keyspace.new")}
    </Button>
  );
  return (
    <div className="min-h-0 flex-1 overflow-y-auto">
      <Title actions={add}>{t("keyspace.title")}</Title>
      <div className="px-4 pb-3 md:px-6">
        <SearchInput name="prefix" value={prefix} label={t("keyspace.prefix")} className="max-w-72" />
      </div>
      {keys.error && <ErrorPanel error={keys.error} retry={() => void keys.refetch()} />}
      {keys.isPending && <Loading />}
      {found?.length === 0 && prefix !== "" && <Empty>{t("keyspace.filtered", { prefix })}</Empty>}
      {found?.length === 0 && prefix === "" && (
        <Empty title={t("keyspace.empty.title")}>{t("keyspace.empty.text")}</Empty>
      )}
      {found && found.length > 0 && (
        <div className="px-4 pb-10 md:px-6">
          <div role="table" aria-label={t("keyspace.title")} className="panel">
            <div role="row" className={cx(ROW, "head h-9 border-b border-line")}>
              <span role="columnheader">{t("column.key")}</span>
              <span role="columnheader" className="max-md:hidden">{t("column.value")}</span>
              <span role="columnheader" className="text-right max-md:hidden">{t("column.version")}</span>
              <span role="columnheader">
                <span className="sr-only">{t("column.actions")}</span>
              </span>
            </div>
            {found.map((entry) => (
              <KeyRow key={JSON.stringify(entry.key)} entry={entry} canAct={canAct} />
            ))}
          </div>
        </div>
      )}
    </div>
  );
}

function KeyRow({ entry, canAct }: { entry: KeyEntry; canAct: boolean }) {
  const t = useT();
  const open = useDialog();
  const client = useQueryClient();
  const name = entry.key.join(" / ");
  const remove = () =>
    open((close) => (
      <Confirm
        title={`${t("action.delete")} ${name}`}
        button={t("action.delete")}
        expected={entry.key.at(-1) ?? ""}
        act={async () => {
          await deleteKey(entry.key);
          await client.invalidateQueries({ queryKey: keyspaceKey });
        }}
        onClose={close}
      />
    ));
  const edit = () => open((close) => <KeyDialog entry={entry} onClose={close} />);
  return (
    <div role="row" className={cx(ROW, "min-h-10 border-b border-line last:border-0")}>
      <span role="cell" className="py-2 font-mono text-xs font-medium break-words">{name}</span>
      <span role="cell" className="truncate font-mono text-xs text-muted max-md:col-start-1 max-md:row-start-2 max-md:pb-2">
        {entry.value}
      </span>
      <span role="cell" className="text-right text-muted tabular-nums max-md:hidden">{entry.version}</span>
      <span role="cell">
        {canAct && (
          <Menu
            button={
              <Button variant="quiet" className="w-8 px-0" aria-label={`${t("column.actions")}: ${name}`}>
                <Icon name="more" />
              </Button>
            }
            groups={[
              [{ label: t("action.edit"), onSelect: edit }],
              [{ label: t("action.delete"), danger: true, onSelect: remove }],
            ]}
          />
        )}
      </span>
    </div>
  );
}

function KeyDialog({ entry, onClose }: { entry?: KeyEntry; onClose: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [value, setValue] = useState(entry?.value ?? "{}");
  const key = entry?.key ?? partsOf(name);
  const write = useMutation({
    // Unchanged values are not written: the service may reject values that a program stored.
    mutationFn: async () => {
      if (value !== entry?.value) await writeKey(key, value, entry?.version ?? 0);
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: keyspaceKey });
      onClose();
    },
  });
  return (
    <Dialog title={entry ? `${t("action.edit")} ${entry.key.join(" / ")}` : t("keyspace.new")} onClose={onClose}>
      <DialogForm
        onSubmit={() => write.mutate()}
        onClose={onClose}
        button={t("action.save")}
        busy={write.isPending}
        disabled={key.length === 0 || jsonError(value) !== null}
        error={write.error ? errorMessage(write.error) : null}
      >
        {!entry && (
          <Field label={t("keyspace.parts")}>
            <input className="field font-mono" autoFocus value={name} onChange={(event) => setName(event.target.value)} />
          </Field>
        )}
        <JsonEditor label={t("column.value")} value={value} onChange={setValue} />
      </DialogForm>
    </Dialog>
  );
}
