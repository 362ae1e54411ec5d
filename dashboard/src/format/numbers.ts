/** Short texts for durations, counts, rates and sizes. */

const UNITS: readonly [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
];

/** A duration in its two largest units: "3d 4h", "2m 5s", "1.2s", "35ms". */
export function duration(seconds: number): string {
  const whole = Math.abs(seconds);
  if (whole < 1) return `${Math.round(whole * 1000)}ms`;
  if (whole < 10) return `${whole.toFixed(1)}s`;
  if (whole < 60) return `${Math.floor(whole)}s`;
  const at = UNITS.findIndex(([size]) => whole >= size);
  const [size, name] = UNITS[at]!;
  const [smaller, smallerName] = UNITS[at + 1] ?? [1, "s"];
  const rest = Math.floor((whole % size) / smaller);
  return `${Math.floor(whole / size)}${name}${rest ? ` ${rest}${smallerName}` : ""}`;
}

/** A duration in whole seconds or coarser, for texts that tick. */
export function coarseDuration(seconds: number): string {
  return duration(seconds < 10 ? Math.floor(seconds) || 0.0001 : seconds).replace(/^0ms$/, "0s").replace(
    /\.0s$/,
    "s",
  );
}

const NUMBERS = {
  en: new Intl.NumberFormat("en"),
  // Four digits are grouped as well, so that columns look alike.
  es: new Intl.NumberFormat("es", { useGrouping: "always" }),
};

/** A number in the format of the current language. */
export const count = (n: number): string =>
  NUMBERS[document.documentElement.lang === "es" ? "es" : "en"].format(n);

export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond < 10) return perSecond.toFixed(perSecond < 1 ? 2 : 1);
  return count(Math.round(perSecond));
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} kB`;
  return `${(n / 1024 / 1024).toFixed(1)} MB`;
}

/** Whole seconds until a deadline, rounded up; null once it has passed. */
export function secondsLeft(deadline: number, now: number): number | null {
  const left = deadline - now;
  return left <= 0 ? null : Math.ceil(left);
}
