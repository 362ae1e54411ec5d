import { createContext, Fragment, type ReactNode, useContext, useMemo, useState } from "react";
import { count } from "../format/numbers";
import { storage } from "../format/storage";
import { en, type MessageKey } from "./en";
import { es } from "./es";

export type Language = "en" | "es";
export type Translate = (key: MessageKey, values?: Record<string, string | number>) => string;

const MESSAGES: Record<Language, Record<MessageKey, string>> = { en, es };
const STORAGE_KEY = "ackline.language";

interface I18n {
  language: Language;
  t: Translate;
  setLanguage: (language: Language) => void;
}

export function translator(language: Language): Translate {
  return (key, values = {}) =>
    MESSAGES[language][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

const Context = createContext<I18n>({
  language: "en",
  t: translator("en"),
  setLanguage: () => {},
});

export const useI18n = (): I18n => useContext(Context);
export const useT = (): Translate => useI18n().t;

/** A message with React nodes filled in. */
export function interpolate(message: string, values: Record<string, ReactNode>): ReactNode {
  return message.split(/\{(\w+)\}/).map((part, at) => {
    const piece = at % 2 ? (values[part] ?? `{${part}}`) : part;
    return <Fragment key={at}>{piece}</Fragment>;
  });
}

/** Messages with a singular form, `….one`. */
export type PluralKey = { [K in MessageKey]: `${K}.one` extends MessageKey ? K : never }[MessageKey];

/** The singular or plural form of a message. */
export function plural(
  t: Translate,
  key: PluralKey,
  n: number,
  values: Record<string, string | number> = {},
): string {
  return n === 1 ? t(`${key}.one`, { n, ...values }) : t(key, { n: count(n), ...values });
}

function initialLanguage(): Language {
  const preferred = storage.read(STORAGE_KEY) ?? navigator.language;
  return preferred.startsWith("es") ? "es" : "en";
}

export function I18nProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(initialLanguage);
  document.documentElement.lang = language;
  const i18n = useMemo<I18n>(
    () => ({
      language,
      t: translator(language),
      setLanguage: (next) => {
        storage.write(STORAGE_KEY, next);
        setLanguage(next);
      },
    }),
    [language],
  );
  return <Context value={i18n}>{children}</Context>;
}
