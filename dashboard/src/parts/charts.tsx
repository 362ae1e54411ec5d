import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { State } from "../api/client";
import { STATES } from "../api/jobs";
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
        className="stroke-completed"
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

/** Fewer moments than this make no line. */
const FEW = 3;

interface ChartProps {
  /** Seconds since 1970. */
  times: number[];
  lines: Line[];
  height?: number;
  label: string;
  format?: (value: number) => string;
}

/** Lines over time. */
export function Chart({ times, lines, height = 160, label, format }: ChartProps) {
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
    const made = new uPlot(options(element, lines, height, format), latest.current, element);
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
  }, [names, height, shade]);

  useEffect(() => plot.current?.setData(latest.current));

  return <div ref={place} role="img" aria-label={label} className="w-full overflow-hidden" />;
}

function options(
  element: HTMLElement,
  lines: Line[],
  height: number,
  format: ChartProps["format"],
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
    cursor: { points: { size: 6 }, y: false, drag: { x: false, y: false } },
    padding: [8, 18, 0, 0],
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: clockTimes },
      {
        ...axis,
        size: 44,
        space: 28,
        ...(format ? { values: (_plot: uPlot, at: number[]) => at.map(format) } : {}),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.5,
        points: { show: (plot: uPlot) => line.dots || plot.data[0].length < FEW, size: 5 },
        ...(line.area ? { fill: `${colour(line.colour)}22` } : {}),
      })),
    ],
  };
}

/** Hours and minutes; for spans of days, the day; for short ones, the seconds too. */
const clockTimes = (_plot: uPlot, at: number[], _axis: number, _space: number, step: number): string[] =>
  at.map((seconds) => {
    const moment = new Date(seconds * 1000);
    const options = step >= 86_400 ? DAY : step < 60 ? { ...CLOCK, second: "2-digit" as const } : CLOCK;
    return moment.toLocaleString(document.documentElement.lang, options);
  });

const DAY = { month: "short", day: "numeric" } as const;
const CLOCK = { hour: "2-digit", minute: "2-digit", hour12: false } as const;

export function Legend({ lines }: { lines: Pick<Line, "label" | "colour">[] }) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
      {lines.map((line) => (
        <li key={line.label} className="flex items-center gap-1.5">
          <svg aria-hidden viewBox="0 0 8 8" className="size-2">
            <circle cx="4" cy="4" r="4" style={{ fill: `var(${line.colour})` }} />
          </svg>
          {line.label}
        </li>
      ))}
    </ul>
  );
}
