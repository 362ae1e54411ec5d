import { useT } from "../i18n/i18n";

export function Traceback({ children }: { children: string }) {
  const t = useT();
  return (
    <pre
      tabIndex={0}
      aria-label={t("job.traceback")}
      className="max-h-96 overflow-auto rounded-md bg-sunken p-3 font-mono text-xs leading-5"
    >
      {children}
    </pre>
  );
}
