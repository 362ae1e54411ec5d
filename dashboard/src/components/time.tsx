import { coarseDuration, secondsLeft } from "../format/numbers";
import { type Translate, useI18n, useT } from "../i18n/i18n";
import { useClockTick } from "../live/clock-tick";

/** A time in the local time zone, with UTC as its tooltip. */
export function Timestamp({ at }: { at: number }) {
  const { language } = useI18n();
  return (
    <time dateTime={isoTime(at)} title={`${isoTime(at)} (UTC)`} className="tabular-nums whitespace-nowrap">
      {localTime(at, language, false)}
    </time>
  );
}

/** The same for a narrow column: a phone shows the day in the tooltip only. */
export function ShortTimestamp({ at }: { at: number }) {
  const { language } = useI18n();
  const [time, ...day] = localTime(at, language, false).split(" ").toReversed();
  return (
    <time
      dateTime={isoTime(at)}
      title={`${localTime(at, language, true)}\n${isoTime(at)} (UTC)`}
      className="tabular-nums whitespace-nowrap"
    >
      {day.length > 0 && <span className="max-md:hidden">{day.toReversed().join(" ")} </span>}
      {time}
    </time>
  );
}

/** Midnight is 00 and every part has two digits, in every language. */
const CLOCK = { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;

/** The time of day, to the millisecond. */
export const preciseTime = (at: number, language: string): string =>
  new Date(at * 1000).toLocaleTimeString(language, { ...CLOCK, fractionalSecondDigits: 3 });

export const isoTime = (at: number): string => new Date(at * 1000).toISOString();

export function localTime(at: number, language: string, withDate: boolean): string {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString(language, CLOCK);
  const today = date.toDateString() === new Date().toDateString();
  if (today && !withDate) return time;
  return `${date.toLocaleDateString(language, { month: "short", day: "numeric" })} ${time}`;
}

/** How long ago, or how long until, with the time itself as its tooltip. */
export function RelativeTime({ at }: { at: number | null | undefined }) {
  const { t, language } = useI18n();
  const text = useClockTick((now) => relativeTime(at, now, t));
  if (at === null || at === undefined) return <span className="text-faint">{t("never")}</span>;
  return (
    <time
      dateTime={isoTime(at)}
      title={`${localTime(at, language, true)}\n${isoTime(at)} (UTC)`}
      className="tabular-nums whitespace-nowrap"
    >
      {text}
    </time>
  );
}

export function relativeTime(at: number | null | undefined, now: number | null, t: Translate): string {
  if (at === null || at === undefined || now === null) return t("never");
  if (Math.abs(at - now) < 1) return t("now");
  return at < now ? t("ago", { duration: coarseDuration(now - at) }) : t("in", { duration: coarseDuration(at - now) });
}

/** Seconds to a job's deadline by the store's clock, then a red "Overdue". */
export function Countdown({ deadline }: { deadline: number | null }) {
  const t = useT();
  const left = useClockTick((now) => {
    if (deadline === null) return "none";
    return now === null ? "unknown" : (secondsLeft(deadline, now) ?? "overdue");
  });
  if (left === "none") return <span className="text-faint italic">—</span>;
  if (left === "unknown") return <span className="text-faint">…</span>;
  if (left === "overdue")
    return <span className="font-medium text-danger">{t("overdue")}</span>;
  return <span className="font-mono text-accent tabular-nums">{t("seconds", { n: left })}</span>;
}
