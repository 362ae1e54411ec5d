/** A line of the left text beside its fellow of the right one; null where one has none. */
export type Beside = [string | null, string | null];

/** Lines that are compared at most; of longer texts the rest is put side by side as it comes. */
const MOST = 1500;

/** Two texts line by line, with as many equal lines beside each other as there can be. */
export function compare(left: string, right: string): Beside[] {
  const [a, b] = [left.split("\n"), right.split("\n")];
  if (a.length > MOST || b.length > MOST) return sideBySide(a, b);
  const longest = lengths(a, b);
  const made: Beside[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) made.push([a[i++]!, b[j++]!]);
    else if (longest[i + 1]![j]! >= longest[i]![j + 1]!) made.push([a[i++]!, null]);
    else made.push([null, b[j++]!]);
  }
  return joined([...made, ...sideBySide(a.slice(i), b.slice(j))]);
}

/** How many lines are common to what is behind each place. */
function lengths(a: string[], b: string[]): Uint16Array[] {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const [here, below] = [table[i]!, table[i + 1]!];
      here[j] = a[i] === b[j] ? below[j + 1]! + 1 : Math.max(below[j]!, here[j + 1]!);
    }
  }
  return table;
}

function sideBySide(a: string[], b: string[]): Beside[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => [a[at] ?? null, b[at] ?? null]);
}

/** Lines that were taken out and put in at the same place stand beside each other. */
function joined(lines: Beside[]): Beside[] {
  const made: Beside[] = [];
  let [out, put]: [string[], string[]] = [[], []];
  const flush = () => {
    made.push(...sideBySide(out, put));
    [out, put] = [[], []];
  };
  for (const [left, right] of lines) {
    if (left !== null && right !== null) {
      flush();
      made.push([left, right]);
    } else if (left !== null) out.push(left);
    else put.push(right!);
  }
  flush();
  return made;
}
