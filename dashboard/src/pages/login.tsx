import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem, token } from "../api/client";
import { fetchMe, type Me } from "../api/session";
import { useT } from "../i18n/i18n";
import mark from "../mark.svg";
import { Button, saying } from "../parts/basics";
import { Field } from "../parts/dialog";

interface LoginProps {
  onEnter: (me: Me) => void;
}

/** The whole page, for those who come without a token. */
export function Login({ onEnter }: LoginProps) {
  return (
    <main className="flex h-full items-center justify-center bg-canvas p-4">
      <div className="panel w-full max-w-sm p-6">
        <LoginForm onEnter={onEnter} />
      </div>
    </main>
  );
}

/** Over everything that is shown, which stays as it is: what was typed there is not lost. */
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
      // Nothing works without a token, so there is no other way on.
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
  const [shown, setShown] = useState("");
  const [refusal, setRefusal] = useState<string | null>(null);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    token.write(shown.trim());
    try {
      onEnter(await fetchMe());
    } catch (error) {
      token.forget();
      const known = error instanceof Problem && error.status === 401;
      setRefusal(known ? t("login.refused", { detail: error.message }) : saying(error));
    }
  };
  const alarm = refusal ?? (expired ? t("login.expired") : null);
  return (
    <form onSubmit={(event) => void enter(event)} className="flex flex-col gap-4">
      <img src={mark} alt="" className="size-9" />
      <div>
        <h1 className="text-base font-semibold">{t("login.title")}</h1>
        <p className="mt-1 text-muted">{t("login.text")}</p>
      </div>
      {alarm && (
        <p role="alert" className="rounded-md bg-danger-soft px-3 py-2 break-words text-danger">
          {alarm}
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
  );
}
