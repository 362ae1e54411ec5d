import { createContext, Fragment, type ReactNode, useContext, useMemo, useState } from "react";
import { count } from "../format/spans";
import { stored } from "../format/stored";
import { en, type Word } from "./en";
import { es } from "./es";

export type Language = "en" | "es";
export type Translate = (word: Word, fill?: Record<string, string | number>) => string;

const WORDS: Record<Language, Record<Word, string>> = { en, es };
const NAME = "ackline.language";

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

/** A sentence with something else than words filled in. */
export function filled(sentence: string, fill: Record<string, ReactNode>): ReactNode {
  return sentence.split(/\{(\w+)\}/).map((part, at) => {
    const shown = at % 2 ? (fill[part] ?? `{${part}}`) : part;
    return <Fragment key={at}>{shown}</Fragment>;
  });
}

/** A word that has one form for one, and one for many. */
export type Counted = { [W in Word]: `${W}.one` extends Word ? W : never }[Word];

/** The word for one, or for many. */
export function plural(
  t: Translate,
  word: Counted,
  n: number,
  fill: Record<string, string | number> = {},
): string {
  return n === 1 ? t(`${word}.one`, { n, ...fill }) : t(word, { n: count(n), ...fill });
}

function chosen(): Language {
  const said = stored.read(NAME) ?? navigator.language;
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
        stored.write(NAME, next);
        setLanguage(next);
      },
    }),
    [language],
  );
  return <Context value={speech}>{children}</Context>;
}
