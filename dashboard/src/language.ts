/** Replaces an invalid browser language: in a C locale it is "en-US@posix", which is no language tag.
 *
 * `Intl` throws on it, and the chart library passes it to `Intl` when it is loaded: such a browser
 * would show a blank page. So this module must be imported first.
 */
const isLanguageTag = (tag: string): boolean => {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
};

export function normalizeLanguage(browser: { readonly language: string }): void {
  if (isLanguageTag(browser.language)) return;
  const plain = browser.language.split(/[.@]/)[0] ?? "";
  Object.defineProperty(browser, "language", { value: isLanguageTag(plain) ? plain : "en", configurable: true });
}

normalizeLanguage(navigator);
