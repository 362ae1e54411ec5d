import { useVirtualizer } from "@tanstack/react-virtual";
import { type ChangeEvent, useMemo, useRef, useState } from "react";
import { laidOut, mistakeIn, packedBytes, pretty, type Token } from "../api/raw";
import { bytes } from "../format/spans";
import { useT } from "../i18n/i18n";
import { save } from "../format/save";
import { Button } from "./basics";
import { Field } from "./dialog";

/** Characters that are shown at first; more only if asked, so that a large payload stays harmless. */
const AT_FIRST = 20_000;
/** Characters that a field to type in takes: a browser lays out each line of it at each key. */
const TYPED = 100_000;

/** The beginning of JSON, laid out; `cut` if there is more. */
export function beginning(text: string, most: number): { parts: Token[]; cut: boolean } {
  const parts: Token[] = [];
  let left = most;
  for (const part of laidOut(text)) {
    if (part.text.length > left) {
      parts.push({ ...part, text: part.text.slice(0, left) });
      return { parts, cut: true };
    }
    left -= part.text.length;
    parts.push(part);
  }
  return { parts, cut: false };
}

interface ViewProps {
  text: string;
  name: string;
  /** What wrote it. */
  codec: string;
}

const BOX = "max-h-[28rem] overflow-auto rounded-md bg-sunken p-3 font-mono text-xs leading-5";

export function JsonView({ text, name, codec }: ViewProps) {
  const t = useT();
  const [all, setAll] = useState(false);
  const { parts, cut } = useMemo(() => beginning(text, AT_FIRST), [text]);
  return (
    <div>
      {codec !== "json" && <Foreign text={text} codec={codec} />}
      {all ? (
        <Lines text={text} name={name} />
      ) : (
        // A long one scrolls by itself, so it can be reached by keyboard.
        <pre tabIndex={0} aria-label={name} className={`${BOX} break-words whitespace-pre-wrap`}>
          {parts.map((part, at) => (
            <span key={at} className={`json-${part.kind}`}>
              {part.text}
            </span>
          ))}
          {cut && "…"}
        </pre>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-1">
        <Copy text={text} />
        <Button look="quiet" onClick={() => save(new Blob([text]), `${name}.json`)}>
          {t("viewer.download")}
        </Button>
        {cut && !all && (
          <Button look="quiet" onClick={() => setAll(true)}>
            {t("viewer.more", { size: bytes(text.length) })}
          </Button>
        )}
        <span className="ml-auto text-xs text-faint tabular-nums">
          {codec !== "json" && `${codec} · `}
          {bytes(text.length)}
        </span>
      </div>
    </div>
  );
}

function Foreign({ text, codec }: { text: string; codec: string }) {
  const t = useT();
  const packed = packedBytes(text);
  return (
    <p className="mb-2 rounded-md bg-warn-soft px-3 py-2 text-warn">
      {packed === null ? t("job.foreign", { codec }) : t("job.notJson", { codec, bytes: packed })}
    </p>
  );
}

/** All of it, however much: only the lines in view are drawn. */
function Lines({ text, name }: { text: string; name: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => pretty(text).split("\n"), [text]);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 20,
    overscan: 20,
  });
  const items = virtual.getVirtualItems();
  return (
    <div ref={scroller} role="group" tabIndex={0} aria-label={name} className={`${BOX} h-[28rem] whitespace-pre`}>
      <div style={{ height: virtual.getTotalSize() }}>
        <div style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
          {items.map((item) => (
            <div key={item.key} className="h-5 w-max">
              {lines[item.index]}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** Some browsers let only pages from https or this machine write to the clipboard. */
function Copy({ text }: { text: string }) {
  const t = useT();
  const [said, setSaid] = useState<"viewer.copy" | "viewer.copied" | "viewer.noCopy">("viewer.copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(pretty(text));
      setSaid("viewer.copied");
    } catch {
      setSaid("viewer.noCopy");
    }
    setTimeout(() => setSaid("viewer.copy"), 2500);
  };
  return (
    <Button look="quiet" onClick={() => void copy()}>
      {t(said)}
    </Button>
  );
}

interface EditorProps {
  value: string;
  onChange: (value: string) => void;
  label: string;
}

/** How a payload is put into an editor: laid out, if that is not too much to type in. */
export const forEditor = (text: string): string => (text.length > TYPED ? text : pretty(text));

/** JSON to be typed; what is wrong with it is said at once. */
export function JsonEditor({ value, onChange, label }: EditorProps) {
  const t = useT();
  const mistake = useMemo(() => mistakeIn(value), [value]);
  const large = value.length > TYPED;
  return (
    <div className="flex flex-col gap-1">
      {large ? (
        <LargeEditor value={value} onChange={onChange} label={label} />
      ) : (
        <Field label={label}>
          <textarea
            value={value}
            rows={10}
            spellCheck={false}
            aria-invalid={mistake !== null}
            onChange={(event) => onChange(event.target.value)}
            className="field h-auto min-h-40 resize-y py-2 font-mono text-xs leading-5"
          />
        </Field>
      )}
      <div className="flex min-h-6 items-start justify-between gap-3 text-xs">
        <span role="status" className="break-words text-danger">
          {mistake && t("form.notJson", { mistake })}
        </span>
        {!large && (
          <button
            type="button"
            className="text-muted hover:text-ink disabled:opacity-50"
            disabled={mistake !== null}
            onClick={() => onChange(pretty(value))}
          >
            {t("form.tidy")}
          </button>
        )}
      </div>
    </div>
  );
}

/** What is too large to be typed in goes through a file. */
function LargeEditor({ value, onChange, label }: EditorProps) {
  const t = useT();
  const choose = (event: ChangeEvent<HTMLInputElement>) => {
    void event.target.files?.[0]?.text().then(onChange);
  };
  return (
    <div className="flex flex-col gap-3 rounded-md border border-line bg-sunken p-3">
      <p>
        <span className="font-medium">{label}</span> · {bytes(value.length)}
      </p>
      <p className="text-muted">{t("form.large")}</p>
      <div className="flex flex-wrap items-center gap-2">
        <Button onClick={() => save(new Blob([value]), "payload.json")}>{t("viewer.download")}</Button>
        <input
          type="file"
          aria-label={t("form.replace")}
          accept=".json,application/json"
          className="field h-auto min-w-0 flex-1 py-1"
          onChange={choose}
        />
      </div>
    </div>
  );
}
