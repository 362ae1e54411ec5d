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

it("fills in names, and nothing that only looks like one", () => {
  const t = translator("en");
  expect(t("done.move", { id: "{to}", to: "slow" })).toBe("Moved {to} to slow");
  expect(plural(t, "queue.count", 1)).toBe("1 job");
  expect(plural(t, "queue.count", 2)).toBe("2 jobs");
});
