import { expect, it } from "vitest";
import { normalizeLanguage } from "./language";

it("makes a language tag of the language of a C locale", () => {
  const normalized = (language: string) => {
    const browser = { language };
    normalizeLanguage(browser);
    return browser.language;
  };
  expect(normalized("es-MX")).toBe("es-MX");
  expect(normalized("en-US@posix")).toBe("en-US");
  expect(normalized("@")).toBe("en");
});
