/** Small components that every page uses. */
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useState } from "react";
import { Problem, type State } from "../api/client";
import { translator, useT } from "../i18n/i18n";

export const cx = (...names: (string | false | null | undefined)[]): string =>
  names.filter(Boolean).join(" ");

/** Whether `active` has been true for long enough to be worth showing. */
export function useDelayed(active: boolean, after = 300): boolean {
  const [delayed, setDelayed] = useState(false);
  useEffect(() => {
    if (!active) return;
    const timer = setTimeout(() => setDelayed(true), after);
    return () => {
      clearTimeout(timer);
      setDelayed(false);
    };
  }, [active, after]);
  return active && delayed;
}

/** A loading indicator; nothing at first, because most requests answer immediately. */
export function Loading() {
  const t = useT();
  const delayed = useDelayed(true);
  return delayed ? (
    <p role="status" className="arrive flex items-center justify-center gap-2 px-6 py-16 text-muted">
      <span aria-hidden className="size-2 animate-pulse rounded-full bg-accent" />
      {t("loading")}
    </p>
  ) : null;
}

const VARIANTS = {
  plain: "border border-line-strong bg-surface text-ink hover:bg-hover",
  primary: "bg-accent text-on-accent hover:opacity-90",
  danger: "border border-line-strong bg-surface text-danger hover:bg-danger-soft",
  quiet: "text-muted hover:bg-sunken hover:text-ink",
  link: "text-accent hover:bg-accent-soft",
} as const;

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: keyof typeof VARIANTS;
}

export function Button({ variant = "plain", className, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      className={cx(
        "inline-flex h-8 shrink-0 items-center justify-center gap-1.5 rounded-md px-3 text-sm font-medium whitespace-nowrap transition-colors disabled:opacity-50",
        VARIANTS[variant],
        className,
      )}
      {...rest}
    />
  );
}

const DOTS: Record<State, string> = {
  queued: "bg-queued",
  scheduled: "bg-scheduled",
  processing: "bg-processing",
  failing: "bg-failing",
  failed: "bg-failed",
  completed: "bg-completed",
  cancelled: "bg-cancelled",
};

export function Dot({ state }: { state: State }) {
  return <span aria-hidden className={cx("inline-block size-2 shrink-0 rounded-full", DOTS[state])} />;
}

/** The state of one job (`one.…`); `state.…` are the names of lists. */
export function StateName({ state }: { state: State }) {
  const t = useT();
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
      <Dot state={state} />
      {t(`one.${state}`)}
    </span>
  );
}

export function Badge({ tone, children }: { tone: "warn" | "danger" | "plain"; children: ReactNode }) {
  const tones = {
    warn: "bg-warn-soft text-warn",
    danger: "bg-danger-soft text-danger",
    plain: "bg-sunken text-muted",
  };
  return (
    <span className={cx("rounded px-1.5 py-px text-xs font-medium whitespace-nowrap", tones[tone])}>
      {children}
    </span>
  );
}

interface EmptyProps {
  title?: string;
  children: ReactNode;
  command?: string;
  action?: ReactNode;
}

/** Shown in place of an empty list: what that means, and what to do next. */
export function Empty({ title, children, command, action }: EmptyProps) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-16 text-center">
      {title && <h2 className="text-base font-semibold">{title}</h2>}
      <p className="text-muted">{children}</p>
      {command && (
        <code className="rounded-md border border-line bg-sunken px-3 py-2 text-left font-mono text-xs break-all whitespace-pre-wrap">
          {command}
        </code>
      )}
      {action}
    </div>
  );
}

/** An error, with the message of the service. */
export function ErrorPanel({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useT();
  return (
    <div role="alert" className="m-4 rounded-lg border border-line bg-danger-soft px-4 py-3">
      <p className="font-medium text-danger">{t("problem.title")}</p>
      <p className="mt-0.5 break-words">{errorMessage(error)}</p>
      {retry && (
        <Button className="mt-3" onClick={retry}>
          {t("action.tryAgain")}
        </Button>
      )}
    </div>
  );
}

export function errorMessage(error: unknown): string {
  const t = translator(document.documentElement.lang === "es" ? "es" : "en");
  if (error instanceof Problem && error.status === 401) return t("login.expired");
  if (error instanceof Problem && error.unreachable)
    return t(error.type === "timeout" ? "problem.timeout" : "problem.unreachable");
  if (error instanceof Problem && error.field) return `${error.message} (${error.field})`;
  return error instanceof Error ? error.message : String(error);
}

export function Title({ children, actions }: { children: ReactNode; actions?: ReactNode }) {
  return (
    <div className="flex min-h-14 flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2.5 md:px-6">
      <h1 className="min-w-0 grow truncate text-lg font-semibold tracking-tight">{children}</h1>
      {actions}
    </div>
  );
}
