import { expect, it } from "vitest";
import { en, type Word } from "./en";
import { es } from "./es";
import { plural, translator } from "./i18n";

const blanks = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();

it("fills in the same things in both languages", () => {
  const different = (Object.keys(en) as Word[]).filter(
    (word) => blanks(es[word]).join() !== blanks(en[word]).join(),
  );
  expect(different).toEqual([]);
});

const sources = Object.entries(
  import.meta.glob<string>(["../**/*.{ts,tsx}", "!../**/*.test.*", "!./*.ts"], { query: "?raw", import: "default", eager: true }),
)
  .map(([, text]) => text)
  .join("\n");

it("has no word that nobody says", () => {
  const said = (word: string): boolean => {
    const stem = word.slice(0, word.lastIndexOf(".") + 1);
    return sources.includes(`"${word}"`) || (stem !== "" && sources.includes(`\`${stem}\${`));
  };
  const used = (word: string) => said(word) || said(word.replace(/\.(one|text)$/, ""));
  expect((Object.keys(en) as Word[]).filter((word) => !used(word))).toEqual([]);
});

it("fills in names, and nothing that only looks like one", () => {
  const t = translator("en");
  expect(t("done.move", { id: "{to}", to: "slow" })).toBe("Moved {to} to slow");
  expect(plural(t, "queue.count", 1)).toBe("1 job");
  expect(plural(t, "queue.count", 2)).toBe("2 jobs");
});
