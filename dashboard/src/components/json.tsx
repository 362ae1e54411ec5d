import { useVirtualizer } from "@tanstack/react-virtual";
import { type ChangeEvent, useMemo, useRef, useState } from "react";
import { base64Size, formatTokens, jsonError, pretty, type Token } from "../api/raw-json";
import { download } from "../format/download";
import { bytes } from "../format/numbers";
import { useT } from "../i18n/i18n";
import { Button } from "./basics";
import { Field } from "./dialog";

/** Characters shown at first; a large payload is shown in full only on request. */
const MAX_PREVIEW = 20_000;
/** Characters a text area can take: browsers lay out all of its lines at each keystroke. */
const MAX_EDITABLE = 100_000;

/** The first `limit` characters of formatted JSON. */
export function preview(text: string, limit: number): { tokens: Token[]; truncated: boolean } {
  const tokens: Token[] = [];
  let remaining = limit;
  for (const token of formatTokens(text)) {
    if (token.text.length > remaining) {
      tokens.push({ ...token, text: token.text.slice(0, remaining) });
      return { tokens, truncated: true };
    }
    remaining -= token.text.length;
    tokens.push(token);
  }
  return { tokens, truncated: false };
}

interface ViewProps {
  text: string;
  name: string;
  /** The codec that wrote it. */
  codec: string;
}

const BOX = "max-h-[28rem] overflow-auto rounded-md bg-sunken p-3 font-mono text-xs leading-5";

export function JsonView({ text, name, codec }: ViewProps) {
  const t = useT();
  const [showAll, setShowAll] = useState(false);
  const { tokens, truncated } = useMemo(() => preview(text, MAX_PREVIEW), [text]);
  return (
    <div>
      {codec !== "json" && <CodecNote text={text} codec={codec} />}
      {showAll ? (
        <AllLines text={text} name={name} />
      ) : (
        // It scrolls by itself, so it must be focusable.
        <pre tabIndex={0} aria-label={name} className={`${BOX} break-words whitespace-pre-wrap`}>
          {tokens.map((token, at) => (
            <span key={at} className={`json-${token.kind}`}>
              {token.text}
            </span>
          ))}
          {truncated && "…"}
        </pre>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-1">
        <CopyButton text={text} />
        <Button variant="quiet" onClick={() => download(new Blob([text]), `${name}.json`)}>
          {t("viewer.download")}
        </Button>
        {truncated && !showAll && (
          <Button variant="quiet" onClick={() => setShowAll(true)}>
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

function CodecNote({ text, codec }: { text: string; codec: string }) {
  const t = useT();
  const size = base64Size(text);
  return (
    <p className="mb-2 rounded-md bg-warn-soft px-3 py-2 text-warn">
      {size === null ? t("job.codec", { codec }) : t("job.notJson", { codec, bytes: size })}
    </p>
  );
}

/** All of it, however long: only the visible lines are rendered. */
function AllLines({ text, name }: { text: string; name: string }) {
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

/** Browsers give access to the clipboard only over HTTPS or on localhost. */
function CopyButton({ text }: { text: string }) {
  const t = useT();
  const [label, setLabel] = useState<"viewer.copy" | "viewer.copied" | "viewer.noCopy">("viewer.copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(pretty(text));
      setLabel("viewer.copied");
    } catch {
      setLabel("viewer.noCopy");
    }
    setTimeout(() => setLabel("viewer.copy"), 2500);
  };
  return (
    <Button variant="quiet" onClick={() => void copy()}>
      {t(label)}
    </Button>
  );
}

interface EditorProps {
  value: string;
  onChange: (value: string) => void;
  label: string;
}

/** A payload as the editor shows it: formatted, unless it is too large to edit. */
export const editorText = (text: string): string => (text.length > MAX_EDITABLE ? text : pretty(text));

/** A JSON editor that shows syntax errors while typing. */
export function JsonEditor({ value, onChange, label }: EditorProps) {
  const t = useT();
  const problem = useMemo(() => jsonError(value), [value]);
  const large = value.length > MAX_EDITABLE;
  return (
    <div className="flex flex-col gap-1">
      {large ? (
        <FileEditor value={value} onChange={onChange} label={label} />
      ) : (
        <Field label={label}>
          <textarea
            value={value}
            rows={10}
            spellCheck={false}
            aria-invalid={problem !== null}
            onChange={(event) => onChange(event.target.value)}
            className="field h-auto min-h-40 resize-y py-2 font-mono text-xs leading-5"
          />
        </Field>
      )}
      <div className="flex min-h-6 items-start justify-between gap-3 text-xs">
        <span role="status" className="break-words text-danger">
          {problem && t("form.notJson", { problem })}
        </span>
        {!large && (
          <button
            type="button"
            className="text-muted hover:text-ink disabled:opacity-50"
            disabled={problem !== null}
            onClick={() => onChange(pretty(value))}
          >
            {t("form.format")}
          </button>
        )}
      </div>
    </div>
  );
}

/** For values too large to edit in place: download, change, upload. */
function FileEditor({ value, onChange, label }: EditorProps) {
  const t = useT();
  const readFile = (event: ChangeEvent<HTMLInputElement>) => {
    void event.target.files?.[0]?.text().then(onChange);
  };
  return (
    <div className="flex flex-col gap-3 rounded-md border border-line bg-sunken p-3">
      <p>
        <span className="font-medium">{label}</span> · {bytes(value.length)}
      </p>
      <p className="text-muted">{t("form.large")}</p>
      <div className="flex flex-wrap items-center gap-2">
        <Button onClick={() => download(new Blob([value]), "payload.json")}>{t("viewer.download")}</Button>
        <input
          type="file"
          aria-label={t("form.replace")}
          accept=".json,application/json"
          className="field h-auto min-w-0 flex-1 py-1"
          onChange={readFile}
        />
      </div>
    </div>
  );
}
