import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { State } from "../api/client";
import { STATES } from "../api/jobs";
import { count } from "../format/spans";
import { useTheme } from "../theme";

/** Several numbers added up to one, so that a narrow picture has fewer. */
export function thinned(numbers: readonly number[], to: number): number[] {
  const each = Math.max(1, Math.ceil(numbers.length / to));
  const made: number[] = [];
  for (let at = 0; at < numbers.length; at += each) {
    made.push(numbers.slice(at, at + each).reduce((sum, one) => sum + one, 0));
  }
  return made;
}

const WIDTH = 120;
const HEIGHT = 24;

/** What went in, as an area, and what was completed, as a line. */
export function Sparkline({ entered, completed }: { entered: number[]; completed: number[] }) {
  const [ins, outs] = [thinned(entered, 60), thinned(completed, 60)];
  const quiet = [...ins, ...outs].every((n) => n === 0);
  const most = Math.max(1, ...ins, ...outs);
  const points = (numbers: number[]) =>
    numbers.map((n, at) => {
      const x = (at / (numbers.length - 1)) * WIDTH;
      return `${x.toFixed(1)},${(HEIGHT - 1 - (n / most) * (HEIGHT - 3)).toFixed(1)}`;
    });
  return (
    <svg
      aria-hidden
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      className="h-6 w-full"
    >
      <polygon
        points={`0,${HEIGHT} ${points(ins).join(" ")} ${WIDTH},${HEIGHT}`}
        className="fill-queued/25"
      />
      <polyline
        points={points(outs).join(" ")}
        fill="none"
        vectorEffect="non-scaling-stroke"
        className={quiet ? "stroke-line-strong" : "stroke-completed"}
        strokeWidth={1.3}
      />
    </svg>
  );
}

const FILLS: Record<State, string> = {
  queued: "fill-queued",
  scheduled: "fill-scheduled",
  processing: "fill-processing",
  failing: "fill-failing",
  failed: "fill-failed",
  completed: "fill-completed",
  cancelled: "fill-cancelled",
};

/** How the live jobs of a queue are spread over its states. */
export function StateBar({ counts }: { counts: Partial<Record<State, number>> }) {
  const shown = STATES.filter((state) => state !== "completed" && state !== "cancelled");
  const total = shown.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  let at = 0;
  return (
    <svg aria-hidden viewBox="0 0 100 4" preserveAspectRatio="none" className="h-1 w-full rounded-full">
      <rect width="100" height="4" className="fill-sunken" />
      {shown.map((state) => {
        const width = total ? ((counts[state] ?? 0) / total) * 100 : 0;
        at += width;
        return (
          <rect key={state} x={at - width} width={width} height="4" className={FILLS[state]} />
        );
      })}
    </svg>
  );
}

export interface Line {
  label: string;
  /** A variable of the style sheet. */
  colour: string;
  values: (number | null)[];
  area?: boolean;
  /** For what is measured only now and then: a line needs two neighbours. */
  dots?: boolean;
}

/** With fewer moments than this, figures are shown instead of lines. */
export const FEW = 3;

interface ChartProps {
  title: string;
  /** What it shows, for those who cannot see it. */
  label?: string;
  /** Seconds since 1970. */
  times: number[];
  lines: Line[];
  height?: number;
  format?: (value: number) => string;
  /** What is said below the figures of one or two moments. */
  few?: string;
}

/** Lines over time, with the figures of the moment under the pointer, or of the last one. */
export function Chart({ title, label = title, times, lines, height = 160, format = count, few }: ChartProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const at = pointed !== null && pointed < times.length ? pointed : null;
  const last = times.length - 1;
  const shown = lines.map((line) => ({ ...line, value: written(line.values[at ?? last], format) }));
  const plain = times.length < FEW;
  return (
    <section className="panel px-4 pt-3 pb-2">
      <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1">
        <h2 className="head">
          {title}
          {at !== null && !plain && (
            <span className="ml-2 font-normal text-ink tabular-nums">{moment(times[at]!, times)}</span>
          )}
        </h2>
        {!plain && <Legend lines={shown} />}
      </div>
      {plain ? (
        <Figures lines={shown} height={height} note={times.length === 0 ? undefined : few} />
      ) : (
        <Plot times={times} lines={lines} height={height} label={label} format={format} onPoint={setPointed} />
      )}
    </section>
  );
}

const written = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? "—" : format(value);

interface FiguresProps {
  lines: (Line & { value: string })[];
  height: number;
  note?: string | undefined;
}

/** One or two moments do not make a line, so their figures are shown instead. */
function Figures({ lines, height, note }: FiguresProps) {
  return (
    <div className="flex flex-col justify-center gap-3" style={{ height }}>
      <dl className="flex flex-wrap gap-x-10 gap-y-3">
        {lines.map((line) => (
          <div key={line.label}>
            <dt className="head flex items-center gap-1.5">
              <Spot colour={line.colour} />
              {line.label}
            </dt>
            <dd className="mt-0.5 text-2xl font-semibold tracking-tight tabular-nums">{line.value}</dd>
          </div>
        ))}
      </dl>
      {note && <p className="text-xs text-muted">{note}</p>}
    </div>
  );
}

interface PlotProps {
  times: number[];
  lines: Line[];
  height: number;
  label: string;
  format: (value: number) => string;
  onPoint: (at: number | null) => void;
}

function Plot({ times, lines, height, label, format, onPoint }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { shade } = useTheme();
  const names = lines.map((line) => line.label).join("|");
  const data: uPlot.AlignedData = [times, ...lines.map((line) => line.values)];
  const latest = useRef(data);
  latest.current = data;

  // A new language or theme makes a new picture; new figures do not.
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const made = new uPlot(options(element, lines, height, format, onPoint), latest.current, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names, height, shade, onPoint]);

  // Not when only the pointer has moved: it would be where it was, and be asked again.
  const figures = JSON.stringify(data);
  useEffect(() => plot.current?.setData(latest.current), [figures]);

  return <div ref={place} role="img" aria-label={label} className="w-full overflow-hidden" />;
}

function options(
  element: HTMLElement,
  lines: Line[],
  height: number,
  format: PlotProps["format"],
  onPoint: PlotProps["onPoint"],
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colour("--faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px ui-sans-serif, system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
    cursor: { points: { size: 6 }, y: false, drag: { x: false, y: false } },
    // On the right, half the width of the last time below it.
    padding: [8, 26, 0, 0],
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: clockTimes },
      {
        ...axis,
        size: 44,
        space: 28,
        values: (_plot: uPlot, at: number[]) => at.map(format),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.5,
        points: { show: line.dots ?? false, size: 5 },
        ...(line.area ? { fill: `${colour(line.colour)}22` } : {}),
      })),
    ],
  };
}

/** Hours and minutes; for spans of days, the day; for short ones, the seconds too. */
const clockTimes = (_plot: uPlot, at: number[], _axis: number, _space: number, step: number): string[] =>
  at.map((seconds) => localTime(seconds, step >= 86_400 ? DAY : step < 60 ? EXACT : CLOCK));

const localTime = (seconds: number, options: Intl.DateTimeFormatOptions): string =>
  new Date(seconds * 1000).toLocaleString(document.documentElement.lang || "en", options);

const DAY = { month: "short", day: "numeric" } as const;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const EXACT = { ...CLOCK, second: "2-digit" } as const;

/** A moment of a chart: with its seconds or its day, as its neighbours need it. */
export function moment(seconds: number, times: readonly number[]): string {
  const [first = 0, second = 0] = times;
  if (second - first < 60) return localTime(seconds, EXACT);
  return localTime(seconds, { ...DAY, ...CLOCK });
}

/** The colour of a line. */
function Spot({ colour }: { colour: string }) {
  return (
    <svg aria-hidden viewBox="0 0 8 8" className="size-2">
      <circle cx="4" cy="4" r="4" style={{ fill: `var(${colour})` }} />
    </svg>
  );
}

interface LegendProps {
  lines: (Pick<Line, "label" | "colour"> & { value: string })[];
}

function Legend({ lines }: LegendProps) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
      {lines.map((line) => (
        <li key={line.label} className="flex items-center gap-1.5">
          <Spot colour={line.colour} />
          {line.label}
          <span className="min-w-6 font-medium text-ink tabular-nums">{line.value}</span>
        </li>
      ))}
    </ul>
  );
}
