import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { State } from "../api/client";
import { STATES } from "../api/jobs";
import { count } from "../format/numbers";
import { useTheme } from "../theme";

/** Sums of neighbouring numbers, at most `maxPoints` of them. */
export function downsample(numbers: readonly number[], maxPoints: number): number[] {
  const groupSize = Math.max(1, Math.ceil(numbers.length / maxPoints));
  const sums: number[] = [];
  for (let start = 0; start < numbers.length; start += groupSize) {
    sums.push(numbers.slice(start, start + groupSize).reduce((sum, one) => sum + one, 0));
  }
  return sums;
}

const WIDTH = 120;
const HEIGHT = 24;

/** Jobs enqueued as an area, jobs completed as a line. */
export function Sparkline({ enqueued, completed }: { enqueued: number[]; completed: number[] }) {
  const [ins, outs] = [downsample(enqueued, 60), downsample(completed, 60)];
  const idle = [...ins, ...outs].every((n) => n === 0);
  const highest = Math.max(1, ...ins, ...outs);
  const points = (numbers: number[]) => {
    const step = WIDTH / Math.max(1, numbers.length);
    return numbers.flatMap((n, at) => {
      const y = (HEIGHT - 1 - (n / highest) * (HEIGHT - 3)).toFixed(1);
      return [`${(at * step).toFixed(1)},${y}`, `${((at + 1) * step).toFixed(1)},${y}`];
    });
  };
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
        className={idle ? "stroke-line-strong" : "stroke-completed"}
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

/** The share of each state among the live jobs of a queue. */
export function StateBar({ counts }: { counts: Partial<Record<State, number>> }) {
  const states = STATES.filter((state) => state !== "completed" && state !== "cancelled");
  const total = states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  let at = 0;
  return (
    <svg aria-hidden viewBox="0 0 100 4" preserveAspectRatio="none" className="h-1 w-full rounded-full">
      <rect width="100" height="4" className="fill-sunken" />
      {states.map((state) => {
        const width = total ? ((counts[state] ?? 0) / total) * 100 : 0;
        at += width;
        return (
          <rect key={state} x={at - width} width={width} height="4" className={FILLS[state]} />
        );
      })}
    </svg>
  );
}

export interface Series {
  label: string;
  /** A CSS variable. */
  color: string;
  values: (number | null)[];
  area?: boolean;
  /** Draw the points: sparse values may have no neighbour to draw a line to. */
  dots?: boolean;
  /** Draw steps: for counts of the interval that ends at each time. */
  stepped?: boolean;
}

/** With fewer points than this, values are shown instead of lines. */
export const MIN_POINTS = 3;

interface ChartProps {
  title: string;
  /** Its description for screen readers. */
  label?: string;
  /** Seconds since 1970. */
  times: number[];
  lines: Series[];
  height?: number;
  format?: (value: number) => string;
  /** The note below the values if there are too few points for lines. */
  sparseNote?: string;
}

/** Lines over time; the legend has the values under the pointer, or the latest. */
export function Chart({ title, label = title, times, lines, height = 160, format = count, sparseNote }: ChartProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  const at = hovered !== null && hovered < times.length ? hovered : null;
  const last = times.length - 1;
  const current = lines.map((line) => ({ ...line, value: formatValue(line.values[at ?? last], format) }));
  const sparse = times.length < MIN_POINTS;
  return (
    <section className="panel px-4 pt-3 pb-2">
      <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1">
        <h2 className="head">
          {title}
          {at !== null && !sparse && (
            <span className="ml-2 font-normal text-ink tabular-nums">{pointLabel(times[at]!, times)}</span>
          )}
        </h2>
        {!sparse && <Legend lines={current} />}
      </div>
      {sparse ? (
        <LatestValues lines={current} height={height} note={times.length === 0 ? undefined : sparseNote} />
      ) : (
        <Plot times={times} lines={lines} height={height} label={label} format={format} onHover={setHovered} />
      )}
    </section>
  );
}

const formatValue = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? "—" : format(value);

interface LatestValuesProps {
  lines: (Series & { value: string })[];
  height: number;
  note?: string | undefined;
}

/** Shown instead of lines while there are only one or two points. */
function LatestValues({ lines, height, note }: LatestValuesProps) {
  return (
    <div className="flex flex-col justify-center gap-3" style={{ height }}>
      <dl className="flex flex-wrap gap-x-10 gap-y-3">
        {lines.map((line) => (
          <div key={line.label}>
            <dt className="head flex items-center gap-1.5">
              <ColorDot color={line.color} />
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
  lines: Series[];
  height: number;
  label: string;
  format: (value: number) => string;
  onHover: (at: number | null) => void;
}

function Plot({ times, lines, height, label, format, onHover }: PlotProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { shade } = useTheme();
  const names = lines.map((line) => line.label).join("|");
  const data: uPlot.AlignedData = [times, ...lines.map((line) => line.values)];
  const latest = useRef(data);
  latest.current = data;

  // Only a new language, size or theme needs a new chart; new values do not.
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    const chart = new uPlot(options(element, lines, height, format, onHover), latest.current, element);
    plot.current = chart;
    const resizeObserver = new ResizeObserver(() => {
      chart.setSize({ width: element.clientWidth, height });
    });
    resizeObserver.observe(element);
    return () => {
      resizeObserver.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [names, height, shade, onHover]);

  // Not on every render: setData moves the cursor, which would render again.
  const dataKey = JSON.stringify(data);
  useEffect(() => plot.current?.setData(latest.current), [dataKey]);

  return <div ref={container} role="img" aria-label={label} className="w-full overflow-hidden" />;
}

function options(
  element: HTMLElement,
  lines: Series[],
  height: number,
  format: PlotProps["format"],
  onHover: PlotProps["onHover"],
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: color("--faint"),
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
    font: "11px ui-sans-serif, system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
    cursor: { points: { size: 6 }, y: false, drag: { x: false, y: false } },
    // The right padding leaves room for half of the last time label.
    padding: [8, 26, 0, 0],
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 26, values: axisLabels },
      {
        ...axis,
        size: 44,
        space: 28,
        values: (_plot: uPlot, ticks: number[]) => ticks.map((tick) => (tick === 0 ? "0" : format(tick))),
      },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: color(line.color),
        width: 1.5,
        points: { show: line.dots ?? false, size: 5 },
        ...(line.stepped ? { paths: uPlot.paths.stepped!({ align: -1 }) } : {}),
        ...(line.area ? { fill: `${color(line.color)}22` } : {}),
      })),
    ],
  };
}

/** Hours and minutes; the day on long axes, the seconds on short ones. */
const axisLabels = (_plot: uPlot, at: number[], _axis: number, _space: number, step: number): string[] =>
  at.map((seconds) => localTime(seconds, step >= 86_400 ? DAY : step < 60 ? CLOCK_SECONDS : CLOCK));

const localTime = (seconds: number, options: Intl.DateTimeFormatOptions): string =>
  new Date(seconds * 1000).toLocaleString(document.documentElement.lang || "en", options);

const DAY = { month: "short", day: "numeric" } as const;
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
const CLOCK_SECONDS = { ...CLOCK, second: "2-digit" } as const;

/** The time of a point: with seconds or with the day, depending on how far apart the points are. */
export function pointLabel(seconds: number, times: readonly number[]): string {
  const [first = 0, second = 0] = times;
  if (second - first < 60) return localTime(seconds, CLOCK_SECONDS);
  return localTime(seconds, { ...DAY, ...CLOCK });
}

/** The color of a line. */
function ColorDot({ color }: { color: string }) {
  return (
    <svg aria-hidden viewBox="0 0 8 8" className="size-2">
      <circle cx="4" cy="4" r="4" style={{ fill: `var(${color})` }} />
    </svg>
  );
}

interface LegendProps {
  lines: (Pick<Series, "label" | "color"> & { value: string })[];
}

function Legend({ lines }: LegendProps) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted">
      {lines.map((line) => (
        <li key={line.label} className="flex items-center gap-1.5">
          <ColorDot color={line.color} />
          {line.label}
          <span className="min-w-6 font-medium text-ink tabular-nums">{line.value}</span>
        </li>
      ))}
    </ul>
  );
}
