/** Line icons on a 16 × 16 grid, in the color of the surrounding text. */
const PATHS = {
  overview: "M2.5 2.5h4.5v5H2.5zM9 2.5h4.5v3H9zM9 7.5h4.5v6H9zM2.5 9.5H7v4H2.5z",
  workers: "M4 4h8v8H4zM6.5 1.5V4M9.5 1.5V4M6.5 12v2.5M9.5 12v2.5M1.5 6.5H4M1.5 9.5H4M12 6.5h2.5M12 9.5h2.5",
  events: "M1.5 8h3l2-5 3 10 2-5h3",
  schedules: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.6",
  keyspace: "M6 10a3.5 3.5 0 1 1 1.2-2.6L14 7.5V10h-2V8.5M5.2 7.6h.01",
  analytics: "M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  settings: "M2 4.5h7M12 4.5h2M2 11.5h2M7 11.5h7M10.5 6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM5.5 13a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Z",
  close: "m4 4 8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  right: "m6 3.5 4.5 4.5L6 12.5",
  menu: "M2 4h12M2 8h12M2 12h12",
  warning: "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.5h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  return (
    <svg
      aria-hidden
      viewBox="0 0 16 16"
      className={`shrink-0 ${className}`}
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.2 : 1.4}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
