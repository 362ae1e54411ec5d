/** A line of the left text and its counterpart on the right; null if there is none. */
export type DiffRow = [string | null, string | null];

/** Longer texts are not compared: their lines are paired by number. */
const MAX_LINES = 1500;

/** Two texts line by line, aligned by their longest common subsequence. */
export function diffLines(left: string, right: string): DiffRow[] {
  const [a, b] = [left.split("\n"), right.split("\n")];
  if (a.length > MAX_LINES || b.length > MAX_LINES) return pairLines(a, b);
  const common = commonLengths(a, b);
  const rows: DiffRow[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) rows.push([a[i++]!, b[j++]!]);
    else if (common[i + 1]![j]! >= common[i]![j + 1]!) rows.push([a[i++]!, null]);
    else rows.push([null, b[j++]!]);
  }
  return pairChanges([...rows, ...pairLines(a.slice(i), b.slice(j))]);
}

/** The length of the longest common subsequence of the rest of both texts, from each pair of lines. */
function commonLengths(a: string[], b: string[]): Uint16Array[] {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const [row, below] = [table[i]!, table[i + 1]!];
      row[j] = a[i] === b[j] ? below[j + 1]! + 1 : Math.max(below[j]!, row[j + 1]!);
    }
  }
  return table;
}

function pairLines(a: string[], b: string[]): DiffRow[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => [a[at] ?? null, b[at] ?? null]);
}

/** Put lines that were removed and added in the same place beside each other. */
function pairChanges(lines: DiffRow[]): DiffRow[] {
  const rows: DiffRow[] = [];
  let [removed, added]: [string[], string[]] = [[], []];
  const flush = () => {
    rows.push(...pairLines(removed, added));
    [removed, added] = [[], []];
  };
  for (const [left, right] of lines) {
    if (left !== null && right !== null) {
      flush();
      rows.push([left, right]);
    } else if (left !== null) removed.push(left);
    else added.push(right!);
  }
  flush();
  return rows;
}
