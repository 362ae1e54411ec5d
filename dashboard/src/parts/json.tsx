import { useMemo, useState } from "react";
import { laidOut, mistakeIn, notJson, pretty } from "../api/raw";
import { bytes } from "../format/spans";
import { useT } from "../i18n/i18n";
import { save } from "../format/save";
import { Button } from "./basics";
import { Field } from "./dialog";

/** Characters that are shown at first; more only if asked, so that a large payload stays harmless. */
const AT_FIRST = 20_000;

export function JsonView({ text, name }: { text: string; name: string }) {
  const t = useT();
  const [all, setAll] = useState(false);
  const [copied, setCopied] = useState(false);
  const set = useMemo(() => pretty(text), [text]);
  const cut = set.length > AT_FIRST;
  const foreign = notJson(text);
  const copy = () => {
    void navigator.clipboard.writeText(set).then(() => setCopied(true));
  };
  return (
    <div>
      {foreign && (
        <p className="mb-2 rounded-md bg-warn-soft px-3 py-2 text-warn">{t("job.notJson", foreign)}</p>
      )}
      <pre
        // A long one scrolls by itself, so it can be reached by keyboard.
        tabIndex={0}
        aria-label={name}
        className="max-h-[28rem] overflow-auto rounded-md bg-sunken p-3 font-mono text-xs leading-5 whitespace-pre-wrap break-words"
      >
        {cut ? (all ? set : `${set.slice(0, AT_FIRST)}…`) : <Coloured text={text} />}
      </pre>
      <div className="mt-2 flex items-center gap-1">
        <Button look="quiet" onClick={copy}>
          {t(copied ? "viewer.copied" : "viewer.copy")}
        </Button>
        <Button look="quiet" onClick={() => save(new Blob([text]), `${name}.json`)}>
          {t("viewer.download")}
        </Button>
        {cut && !all && (
          <Button look="quiet" onClick={() => setAll(true)}>
            {t("viewer.more", { size: bytes(text.length) })}
          </Button>
        )}
        <span className="ml-auto text-xs text-faint tabular-nums">{bytes(text.length)}</span>
      </div>
    </div>
  );
}

function Coloured({ text }: { text: string }) {
  const parts = useMemo(() => [...laidOut(text)], [text]);
  return parts.map((part, at) => (
    <span key={at} className={`json-${part.kind}`}>
      {part.text}
    </span>
  ));
}

interface EditorProps {
  value: string;
  onChange: (value: string) => void;
  label: string;
}

/** JSON to be typed; what is wrong with it is said at once. */
export function JsonEditor({ value, onChange, label }: EditorProps) {
  const t = useT();
  const mistake = mistakeIn(value);
  return (
    <div className="flex flex-col gap-1">
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
      <div className="flex min-h-6 items-start justify-between gap-3 text-xs">
        <span role="status" className="break-words text-danger">
          {mistake && t("form.notJson", { mistake })}
        </span>
        <button
          type="button"
          className="text-muted hover:text-ink disabled:opacity-50"
          disabled={mistake !== null}
          onClick={() => onChange(pretty(value))}
        >
          {t("form.tidy")}
        </button>
      </div>
    </div>
  );
}
