import { expect, it } from "vitest";
import { mendLanguage } from "./language";

it("makes a tag of what a browser in a C locale says", () => {
  const mended = (language: string) => {
    const browser = { language };
    mendLanguage(browser);
    return browser.language;
  };
  expect(mended("es-MX")).toBe("es-MX");
  expect(mended("en-US@posix")).toBe("en-US");
  expect(mended("@")).toBe("en");
});
