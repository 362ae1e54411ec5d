import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Problem, token } from "../api/client";
import { fetchMe, meKey } from "../api/session";
import { useT } from "../i18n/i18n";
import mark from "../mark.svg";
import { Button, saying } from "../parts/basics";
import { Field } from "../parts/dialog";

export function Login({ expired }: { expired: boolean }) {
  const t = useT();
  const client = useQueryClient();
  const [shown, setShown] = useState("");
  const [refusal, setRefusal] = useState<string | null>(null);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    token.write(shown.trim());
    try {
      client.setQueryData(meKey, await fetchMe());
    } catch (error) {
      token.forget();
      const known = error instanceof Problem && error.status === 401;
      setRefusal(known ? t("login.refused", { detail: error.message }) : saying(error));
    }
  };
  return (
    <main className="flex h-full items-center justify-center bg-canvas p-4">
      <form onSubmit={(event) => void enter(event)} className="panel flex w-full max-w-sm flex-col gap-4 p-6">
        <img src={mark} alt="" className="size-9" />
        <div>
          <h1 className="text-base font-semibold">{t("login.title")}</h1>
          <p className="mt-1 text-muted">{t("login.text")}</p>
        </div>
        {(refusal ?? (expired && t("login.expired"))) && (
          <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 break-words text-danger">
            {refusal ?? t("login.expired")}
          </p>
        )}
        <Field label={t("login.label")}>
          <input
            type="password"
            autoComplete="off"
            autoFocus
            required
            className="field font-mono"
            value={shown}
            onChange={(event) => setShown(event.target.value)}
          />
        </Field>
        <Button type="submit" look="primary" disabled={shown.trim() === ""}>
          {t("login.button")}
        </Button>
      </form>
    </main>
  );
}
