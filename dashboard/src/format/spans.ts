/** Spans of time and numbers, short and of even width. */

const UNITS: readonly [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
];

/** A span in its two largest units: "3d 4h", "2m 5s", "1.2s", "35ms". */
export function span(seconds: number): string {
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

/** A span in whole seconds and coarser, for what is drawn again as it passes. */
export function coarse(seconds: number): string {
  return span(seconds < 10 ? Math.floor(seconds) || 0.0001 : seconds).replace(/^0ms$/, "0s").replace(
    /\.0s$/,
    "s",
  );
}

const NUMBERS = {
  en: new Intl.NumberFormat("en"),
  // Four digits are grouped as well, so that columns look alike.
  es: new Intl.NumberFormat("es", { useGrouping: "always" }),
};

/** A number as the chosen language writes it; the page says which one that is. */
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

/** What the Processing table shows: whole seconds, rounded up, and null when the time is over. */
export function remaining(deadline: number, now: number): number | null {
  const left = deadline - now;
  return left <= 0 ? null : Math.ceil(left);
}
