import { coarse, remaining } from "../format/spans";
import { type Translate, useSpeech, useT } from "../i18n/i18n";
import { useTicking } from "../live/ticking";

/** A moment in local time; UTC when the pointer rests on it. */
export function Moment({ at }: { at: number }) {
  const { language } = useSpeech();
  return (
    <time dateTime={iso(at)} title={`${iso(at)} (UTC)`} className="tabular-nums whitespace-nowrap">
      {local(at, language, false)}
    </time>
  );
}

/** The same for a narrow column, where the day is left to the title if there is no room. */
export function ShortMoment({ at }: { at: number }) {
  const { language } = useSpeech();
  const [time, ...day] = local(at, language, false).split(" ").toReversed();
  return (
    <time
      dateTime={iso(at)}
      title={`${local(at, language, true)}\n${iso(at)} (UTC)`}
      className="tabular-nums whitespace-nowrap"
    >
      {day.length > 0 && <span className="max-md:hidden">{day.toReversed().join(" ")} </span>}
      {time}
    </time>
  );
}

/** Midnight is 00, and each part has two digits, in every language. */
const CLOCK = { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;

/** The time of a day, to the millisecond. */
export const exact = (at: number, language: string): string =>
  new Date(at * 1000).toLocaleTimeString(language, { ...CLOCK, fractionalSecondDigits: 3 });

export const iso = (at: number): string => new Date(at * 1000).toISOString();

export function local(at: number, language: string, date: boolean): string {
  const moment = new Date(at * 1000);
  const time = moment.toLocaleTimeString(language, CLOCK);
  const today = moment.toDateString() === new Date().toDateString();
  if (today && !date) return time;
  return `${moment.toLocaleDateString(language, { month: "short", day: "numeric" })} ${time}`;
}

/** How long ago, or how long until; the moment itself when the pointer rests on it. */
export function Relative({ at }: { at: number | null | undefined }) {
  const { t, language } = useSpeech();
  const text = useTicking((now) => relative(at, now, t));
  if (at === null || at === undefined) return <span className="text-faint">{t("never")}</span>;
  return (
    <time
      dateTime={iso(at)}
      title={`${local(at, language, true)}\n${iso(at)} (UTC)`}
      className="tabular-nums whitespace-nowrap"
    >
      {text}
    </time>
  );
}

export function relative(at: number | null | undefined, now: number | null, t: Translate): string {
  if (at === null || at === undefined || now === null) return t("never");
  if (Math.abs(at - now) < 1) return t("now");
  return at < now ? t("ago", { span: coarse(now - at) }) : t("in", { span: coarse(at - now) });
}

/** Seconds to a job's deadline by the store's clock, then a red "Overdue". */
export function Countdown({ deadline }: { deadline: number | null }) {
  const t = useT();
  const left = useTicking((now) => {
    if (deadline === null) return "none";
    return now === null ? "unknown" : (remaining(deadline, now) ?? "overdue");
  });
  if (left === "none") return <span className="text-faint italic">—</span>;
  if (left === "unknown") return <span className="text-faint">…</span>;
  if (left === "overdue")
    return <span className="font-medium text-danger">{t("overdue")}</span>;
  return <span className="font-mono text-accent tabular-nums">{t("seconds", { n: left })}</span>;
}
