import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem, token } from "../api/client";
import { fetchMe, type Me } from "../api/session";
import { Button, errorMessage } from "../components/basics";
import { Field } from "../components/dialog";
import { useT } from "../i18n/i18n";
import mark from "../mark.svg";

interface LoginProps {
  onEnter: (me: Me) => void;
}

/** The page for visitors without a token. */
export function Login({ onEnter }: LoginProps) {
  return (
    <main className="flex h-full items-center justify-center bg-canvas p-4">
      <div className="panel w-full max-w-sm p-6">
        <LoginForm onEnter={onEnter} />
      </div>
    </main>
  );
}

/** A dialog over the current page when the token expires, so that nothing typed is lost. */
export function LoginAgain({ onEnter }: LoginProps) {
  const t = useT();
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      aria-label={t("login.title")}
      // Nothing works without a token, so it cannot be closed.
      onKeyDown={(event) => event.key === "Escape" && event.preventDefault()}
      onCancel={(event) => event.preventDefault()}
      className="arrive m-auto w-[calc(100vw-2rem)] max-w-sm rounded-xl border border-line bg-surface p-6 text-ink shadow-raised"
    >
      <LoginForm onEnter={onEnter} expired />
    </dialog>
  );
}

function LoginForm({ onEnter, expired = false }: LoginProps & { expired?: boolean }) {
  const t = useT();
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    token.write(value.trim());
    try {
      onEnter(await fetchMe());
    } catch (error) {
      token.clear();
      const rejected = error instanceof Problem && error.status === 401;
      setProblem(rejected ? t("login.rejected", { detail: error.message }) : errorMessage(error));
    }
  };
  const alert = problem ?? (expired ? t("login.expired") : null);
  return (
    <form onSubmit={(event) => void enter(event)} className="flex flex-col gap-4">
      <img src={mark} alt="" className="size-9" />
      <div>
        <h1 className="text-base font-semibold">{t("login.title")}</h1>
        <p className="mt-1 text-muted">{t("login.text")}</p>
      </div>
      {alert && (
        <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 break-words text-danger">
          {alert}
        </p>
      )}
      <Field label={t("login.label")}>
        <input
          type="password"
          autoComplete="off"
          autoFocus
          required
          className="field font-mono"
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </Field>
      <Button type="submit" variant="primary" disabled={value.trim() === ""}>
        {t("login.button")}
      </Button>
    </form>
  );
}
