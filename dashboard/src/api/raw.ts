/** JSON as it was written. A payload is kept byte for byte, and JSON.parse would round its numbers. */

export type TokenKind = "key" | "string" | "number" | "word" | "mark";
export interface Token {
  kind: TokenKind;
  text: string;
}
/** A token, and where it begins. */
interface Placed extends Token {
  at: number;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/gy;
const SPACE = /\s*/gy;

/** The tokens of valid JSON, one after the other. */
export function* tokens(text: string): Generator<Placed> {
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
  return /[tfn]/.test(text[0]!) ? "word" : "mark";
}

/** The tokens with the spaces of a well-set page between them; names of fields are told apart. */
export function* laidOut(text: string): Generator<Token> {
  let depth = 0;
  let before: string | null = null;
  const line = (): string => `\n${"  ".repeat(depth)}`;
  const ahead = withNext(tokens(text));
  for (const [token, next] of ahead) {
    const mark = token.kind === "mark" ? token.text : "";
    if (mark === "}" || mark === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") yield { kind: "mark", text: line() };
    } else if (before === "{" || before === "[" || before === ",") {
      yield { kind: "mark", text: line() };
    }
    yield next?.text === ":" ? { ...token, kind: "key" } : token;
    if (mark === "{" || mark === "[") depth += 1;
    if (mark === ":") yield { kind: "mark", text: " " };
    before = token.text;
  }
}

function* withNext<T>(all: Iterable<T>): Generator<[T, T | null]> {
  let held: T | null = null;
  for (const one of all) {
    if (held) yield [held, one];
    held = one;
  }
  if (held) yield [held, null];
}

/** JSON with line breaks and indents, every literal as it was. */
export function pretty(text: string): string {
  let made = "";
  for (const token of laidOut(text)) made += token.text;
  return made;
}

/** What is directly in an object or a list: names, which a list has none of, and values as written. */
function* membersOf(text: string): Generator<[name: string | null, value: string]> {
  let depth = 0;
  let name: string | null = null;
  let start: number | null = null;
  for (const { kind, text: token, at } of tokens(text)) {
    const mark = kind === "mark" ? token : "";
    if (mark === "}" || mark === "]") depth -= 1;
    if (start !== null && ((depth === 1 && mark === ",") || depth === 0)) {
      yield [name, text.slice(start, at).trimEnd()];
      [name, start] = [null, null];
    } else if (depth === 1 && mark === ":") {
      name = JSON.parse(text.slice(start!, at)) as string;
      start = null;
    } else if (depth >= 1 && mark !== ",") {
      start ??= at;
    }
    if (mark === "{" || mark === "[") depth += 1;
  }
}

/** The values of an object's fields, as they were written. */
export const fieldsOf = (text: string): Record<string, string> =>
  Object.fromEntries([...membersOf(text)].map(([name, value]) => [name ?? "", value]));

/** The items of a list, as they were written. */
export const itemsOf = (text: string): string[] => [...membersOf(text)].map(([, value]) => value);

/** Why this is not JSON, or null if it is. */
export function mistakeIn(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** How many bytes the service shows as base64, for it cannot read them; null if it can. */
export function packedBytes(text: string): number | null {
  if (!text.startsWith('{"base64":')) return null;
  const { base64 } = JSON.parse(text) as { base64?: unknown };
  if (typeof base64 !== "string") return null;
  return Math.floor((base64.replace(/=+$/, "").length * 3) / 4);
}
