/** A browser in a C locale calls its language "en-US@posix", which is not a language tag.
 *
 * `Intl` throws when it is given one like that, and the chart library gives it one as soon as it is
 * loaded: without this, such a browser would show a blank page.
 */
const known = (tag: string): boolean => {
  try {
    return Intl.getCanonicalLocales(tag).length > 0;
  } catch {
    return false;
  }
};

export function mendLanguage(browser: { readonly language: string }): void {
  if (known(browser.language)) return;
  const plain = browser.language.split(/[.@]/)[0] ?? "";
  Object.defineProperty(browser, "language", { value: known(plain) ? plain : "en", configurable: true });
}

mendLanguage(navigator);
