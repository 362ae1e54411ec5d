/** JSON as text: payloads are kept byte for byte, and JSON.parse would round large numbers. */

export type TokenKind = "key" | "string" | "number" | "literal" | "punctuation";
export interface Token {
  kind: TokenKind;
  text: string;
}
/** A token and its offset. */
interface TokenAt extends Token {
  at: number;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/gy;
const SPACE = /\s*/gy;

/** The tokens of valid JSON. */
export function* tokens(text: string): Generator<TokenAt> {
  let at = 0;
  while (at < text.length) {
    SPACE.lastIndex = at;
    SPACE.exec(text);
    at = SPACE.lastIndex;
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text)?.[0];
    if (found === undefined) return;
    at = TOKEN.lastIndex;
    yield { kind: kindOf(found), text: found, at: at - found.length };
  }
}

function kindOf(text: string): TokenKind {
  if (text[0] === '"') return "string";
  if (/[-\d]/.test(text[0]!)) return "number";
  return /[tfn]/.test(text[0]!) ? "literal" : "punctuation";
}

/** The tokens of indented JSON, with the keys of objects told apart from other strings. */
export function* formatTokens(text: string): Generator<Token> {
  let depth = 0;
  let before: string | null = null;
  const line = (): string => `\n${"  ".repeat(depth)}`;

  for (const [token, next] of withNext(tokens(text))) {
    const punctuation = token.kind === "punctuation" ? token.text : "";
    if (punctuation === "}" || punctuation === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") yield { kind: "punctuation", text: line() };
    } else if (before === "{" || before === "[" || before === ",") {
      yield { kind: "punctuation", text: line() };
    }
    yield next?.text === ":" ? { ...token, kind: "key" } : token;
    if (punctuation === "{" || punctuation === "[") depth += 1;
    if (punctuation === ":") yield { kind: "punctuation", text: " " };
    before = token.text;
  }
}

function* withNext<T>(all: Iterable<T>): Generator<[T, T | null]> {
  let previous: T | null = null;
  for (const one of all) {
    if (previous) yield [previous, one];
    previous = one;
  }
  if (previous) yield [previous, null];
}

/** Indented JSON, with every literal as written. */
export function pretty(text: string): string {
  let formatted = "";
  for (const token of formatTokens(text)) formatted += token.text;
  return formatted;
}

/** The direct members of an object or a list: name (null in a list) and value, as written. */
function* members(text: string): Generator<[name: string | null, value: string]> {
  let depth = 0;
  let name: string | null = null;
  let start: number | null = null;
  for (const { kind, text: token, at } of tokens(text)) {
    const punctuation = kind === "punctuation" ? token : "";
    if (punctuation === "}" || punctuation === "]") depth -= 1;
    if (start !== null && ((depth === 1 && punctuation === ",") || depth === 0)) {
      yield [name, text.slice(start, at).trimEnd()];
      [name, start] = [null, null];
    } else if (depth === 1 && punctuation === ":") {
      name = JSON.parse(text.slice(start!, at)) as string;
      start = null;
    } else if (depth >= 1 && punctuation !== ",") {
      start ??= at;
    }
    if (punctuation === "{" || punctuation === "[") depth += 1;
  }
}

/** The fields of an object, each value as written. */
export const fieldsOf = (text: string): Record<string, string> =>
  Object.fromEntries([...members(text)].map(([name, value]) => [name ?? "", value]));

/** The items of a list, as written. */
export const itemsOf = (text: string): string[] => [...members(text)].map(([, value]) => value);

/** The syntax error, or null for valid JSON. */
export function jsonError(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The size of a payload that the service sent as base64; null for any other payload. */
export function base64Size(text: string): number | null {
  if (!text.startsWith('{"base64":')) return null;
  const { base64 } = JSON.parse(text) as { base64?: unknown };
  if (typeof base64 !== "string") return null;
  return Math.floor((base64.replace(/=+$/, "").length * 3) / 4);
}
