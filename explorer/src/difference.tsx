// What changed between two outputs: their tokens, and the difference of their alignments where both have a token.
import { useMemo, useState } from "preact/hooks";
import type { Matrix, Seen } from "./api";
import { usePalette } from "./colours";
import { Heat, largest, type Place, chosen } from "./heatmap";
import { useValue } from "./link";
import { decimals, direction, Scale, visible } from "./parts";

/** The pairs of places of a longest common subsequence. */
export function common(a: string[], b: string[]): [number, number][] {
  const most = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) most[i][j] = a[i] === b[j] ? most[i + 1][j + 1] + 1 : Math.max(most[i + 1][j], most[i][j + 1]);
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (most[i + 1][j] >= most[i][j + 1]) i++; else j++;
  }
  return pairs;
}

export function Changed({ before, after, label }: { before: string[]; after: string[]; label: string }) {
  const pairs = common(before, after), out: preact.JSX.Element[] = [];
  let i = 0, j = 0;
  for (const [p, q] of [...pairs, [before.length, after.length]]) {
    for (; i < p; i++) out.push(<del><span class="said">removed: </span><bdi>{visible(before[i])}</bdi></del>);
    for (; j < q; j++) out.push(<ins><span class="said">added: </span><bdi>{visible(after[j])}</bdi></ins>);
    if (i < before.length) out.push(<bdi>{visible(before[i])}</bdi>);
    i++; j++;
  }
  return <p class="changed" role="group" aria-label={label} dir={direction(after.join(" "))}>{out.map(each => <>{each}{" "}</>)}</p>;
}

export function Difference({ before, after }: { before: Seen; after: Seen }) {
  const palette = usePalette(), [unit] = useValue("unit", "symbols"), [layer] = useValue("layer"), [head] = useValue("head"), [here, point] = useState<Place>(null);
  const sides = [before, after].map(each => each.views[unit] ?? each.views["symbols"]);
  const { matrix, rows, columns } = useMemo(() => {
    const [a, b] = sides;
    if (!a || !b) return { matrix: [] as Matrix, rows: [], columns: [] };
    const t = common(a.tokens, b.tokens), s = common(a.source_tokens, b.source_tokens), [x, y] = [chosen(a, layer, head), chosen(b, layer, head)];
    return { rows: t.map(([i]) => a.tokens[i]), columns: s.map(([i]) => a.source_tokens[i]), matrix: t.map(([i, k]) => s.map(([j, l]) => y[k][l] - x[i][j])) };
  }, [sides[0], sides[1], layer, head]);
  const highest = Math.max(0.05, largest(matrix.map(row => row.map(Math.abs))));
  return <>
    <Changed before={before.output.tokens} after={after.output.tokens} label="what changed in the output" />
    <p>Log-probability {decimals(before.output.log_probability)} before, {decimals(after.output.log_probability)} now.</p>
    {rows.length > 0 && columns.length > 0 && <><h3>change of the weights, where input and output have the same tokens</h3>
      <Heat {...{ matrix, rows, columns, highest, palette, here, point }} table={palette.signed} label="change of weights" />
      <p class="foot"><Scale lowest={-highest} highest={highest} palette={palette} table={palette.signed} name="more weight" /></p></>}
  </>;
}
