import { createContext, type ReactNode, useContext, useMemo, useState } from "react";
import { en, type Word } from "./en";
import { es } from "./es";

export type Language = "en" | "es";
export type Translate = (word: Word, fill?: Record<string, string | number>) => string;

const WORDS: Record<Language, Record<Word, string>> = { en, es };
const STORED = "ackline.language";

interface Speech {
  language: Language;
  t: Translate;
  speak: (language: Language) => void;
}

export function translator(language: Language): Translate {
  return (word, fill = {}) =>
    WORDS[language][word].replace(/\{(\w+)\}/g, (whole, name: string) => String(fill[name] ?? whole));
}

const Context = createContext<Speech>({
  language: "en",
  t: translator("en"),
  speak: () => {},
});

export const useSpeech = (): Speech => useContext(Context);
export const useT = (): Translate => useSpeech().t;

/** The word for one, or for many. */
export function plural(
  t: Translate,
  word: "queue.count" | "bulk.confirm" | "bulk.preview" | "bulk.done",
  n: number,
  fill: Record<string, string | number> = {},
): string {
  return n === 1 ? t(`${word}.one`, fill) : t(word, { n: n.toLocaleString(), ...fill });
}

function chosen(): Language {
  const said = localStorage.getItem(STORED) ?? navigator.language;
  return said.startsWith("es") ? "es" : "en";
}

export function SpeechProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(chosen);
  document.documentElement.lang = language;
  const speech = useMemo<Speech>(
    () => ({
      language,
      t: translator(language),
      speak: (next) => {
        localStorage.setItem(STORED, next);
        setLanguage(next);
      },
    }),
    [language],
  );
  return <Context value={speech}>{children}</Context>;
}
