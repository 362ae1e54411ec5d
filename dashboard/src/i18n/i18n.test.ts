import { expect, it } from "vitest";
import { en, type MessageKey } from "./en";
import { es } from "./es";
import { plural, translator } from "./i18n";

const placeholders = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();

it("has the same placeholders in both languages", () => {
  const different = (Object.keys(en) as MessageKey[]).filter(
    (key) => placeholders(es[key]).join() !== placeholders(en[key]).join(),
  );
  expect(different).toEqual([]);
});

const sources = Object.entries(
  import.meta.glob<string>(["../**/*.{ts,tsx}", "!../**/*.test.*", "!./*.ts"], { query: "?raw", import: "default", eager: true }),
)
  .map(([, text]) => text)
  .join("\n");

it("has no unused message", () => {
  const appears = (key: string): boolean => {
    const prefix = key.slice(0, key.lastIndexOf(".") + 1);
    return sources.includes(`"${key}"`) || (prefix !== "" && sources.includes(`\`${prefix}\${`));
  };
  const isUsed = (key: string) => appears(key) || appears(key.replace(/\.(one|text)$/, ""));
  expect((Object.keys(en) as MessageKey[]).filter((key) => !isUsed(key))).toEqual([]);
});

it("fills in placeholders, but none inside the values", () => {
  const t = translator("en");
  expect(t("done.move", { id: "{to}", to: "slow" })).toBe("Moved {to} to slow");
  expect(plural(t, "queue.count", 1)).toBe("1 job");
  expect(plural(t, "queue.count", 2)).toBe("2 jobs");
});
