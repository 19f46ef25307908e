// An alignment: its tokens, its layers and heads, and the matrix of weights, each pointing at the others.
import { useMemo, useState } from "preact/hooks";
import type { Matrix, View, Views } from "./api";
import { painted, type Palette, shade, usePalette } from "./colours";
import { useValue } from "./link";
import { Button, Chips, Choice, decimals, Scale, useWidth, Values, visible } from "./parts";

const FONT = "12px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif", ROW = 17;
const pen = document.createElement("canvas").getContext("2d")!;
export function widthOf(text: string): number { pen.font = FONT; return pen.measureText(text).width; }

function fitted(text: string, room: number): string {
  if (widthOf(text) <= room) return text;
  const signs = [...text.slice(0, 100)];
  while (signs.length > 1 && widthOf(signs.join("") + "…") > room) signs.pop();
  return signs.join("") + "…";
}

/** Every how many labels one is shown so that they do not overlap. */
function every(cell: number, least: number): number {
  for (let power = 1; ; power *= 10) for (const factor of [1, 2, 5]) if (factor * power * cell >= least) return factor * power;
}

export type Place = { t: number; s: number } | null;

export function Heat({ matrix, rows, columns, highest, palette, table, here, point, label, unit = "weight", tallest = 560 }: {
  matrix: Matrix; rows: string[]; columns: string[]; highest: number; palette: Palette; table?: Palette["weights"];
  here: Place; point: (place: Place) => void; label: string; unit?: string; tallest?: number;
}) {
  const [ref, room] = useWidth<HTMLDivElement>();
  const T = rows.length, S = columns.length, signed = table === palette.signed;
  const url = useMemo(() => painted(matrix, value => signed ? shade(palette.signed, 0.5 + value / highest / 2) : shade(table ?? palette.weights, value / highest)), [matrix, highest, palette, table]);
  if (!T || !S) return <p class="faint">There is no weight to draw.</p>;
  const longest = Math.max(48, Math.min(130, room / 4));
  const left = Math.ceil(Math.min(longest, Math.max(...rows.map(row => widthOf(visible(row)))))) + 8;
  const cell = Math.max(4, Math.min(38, (room - left - 8) / S, tallest / T));
  const w = Math.max(cell, Math.min(38, (room - left - 8) / S)), h = Math.max(cell, Math.min(30, tallest / T));
  const widest = Math.max(...columns.map(column => widthOf(visible(column))));
  const flat = widest < w - 3, gapX = flat ? 1 : every(w, ROW), gapY = every(h, 14);
  const top = flat ? ROW + 2 : Math.ceil(Math.min(longest, widest) * 0.72) + 20;
  const width = left + S * w + (flat ? 4 : Math.min(longest, widest) * 0.72), height = top + T * h + 2;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Escape") point(null);
    if (!step) return;
    event.preventDefault();
    const from = here ?? { t: step[0] < 0 ? T : step[0] > 0 ? -1 : 0, s: step[1] < 0 ? S : step[1] > 0 ? -1 : 0 };
    point({ t: Math.min(T - 1, Math.max(0, from.t + step[0])), s: Math.min(S - 1, Math.max(0, from.s + step[1])) });
  };
  const over = (event: PointerEvent) => {
    const rect = (event.currentTarget as Element).getBoundingClientRect();
    const s = Math.floor((event.clientX - rect.left - left) / w), t = Math.floor((event.clientY - rect.top - top) / h);
    point(s >= 0 && s < S && t >= 0 && t < T ? { t, s } : null);
  };
  const at = here && here.t < T && here.s < S ? here : null;
  return <>
    <div ref={ref} class="scroll">
      <svg class="heat" width={width} height={height} viewBox={`0 0 ${width} ${height}`} tabindex={0} role="application" aria-label={`${label}; the arrow keys move`}
        onKeyDown={move} onPointerMove={over} onPointerLeave={() => point(null)} onBlur={() => point(null)} font-family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif" font-size="12">
        <image href={url} x={left} y={top} width={S * w} height={T * h} preserveAspectRatio="none" style="image-rendering: pixelated" />
        <rect x={left - 0.5} y={top - 0.5} width={S * w + 1} height={T * h + 1} fill="none" stroke="var(--line)" />
        {columns.map((column, s) => s % gapX ? null : flat
          ? <text x={left + (s + 0.5) * w} y={top - 6} text-anchor="middle" fill={at?.s === s ? "var(--mark)" : "var(--ink)"}>{visible(column)}</text>
          : <text transform={`translate(${left + (s + 0.5) * w + 4} ${top - 5}) rotate(-45)`} fill={at?.s === s ? "var(--mark)" : "var(--ink)"}>{fitted(visible(column), longest)}</text>)}
        {rows.map((row, t) => t % gapY ? null : <text x={left - 6} y={top + (t + 0.5) * h + 4} text-anchor="end" fill={at?.t === t ? "var(--mark)" : "var(--ink)"}>{fitted(visible(row), longest)}</text>)}
        {at && <rect x={left + at.s * w} y={top + at.t * h} width={w} height={h} fill="none" stroke="var(--mark)" stroke-width="2" />}
      </svg>
    </div>
    <output class="reading" aria-live="polite">{at ? <><b>{visible(rows[at.t])}</b> ← <b>{visible(columns[at.s])}</b> {decimals(matrix[at.t][at.s], 4)}</> : " "}</output>
    <Values title={`Table of ${signed ? "differences" : unit + "s"}`} head={["token", ...columns.map(visible)]} rows={matrix.map((row, t) => [visible(rows[t]), ...row.map(value => decimals(value, 3))])} />
  </>;
}

/** The mean over heads, or one of them; of one layer, or the model's own choice. */
export function chosen(view: View, layer: string, head: string): Matrix {
  const heads = view.alignments?.[layer];
  if (!heads?.length) return view.alignment;
  if (head !== "" && heads[Number(head)]) return heads[Number(head)];
  return heads.length === 1 ? heads[0] : heads[0].map((row, t) => row.map((_, s) => heads.reduce((sum, each) => sum + each[t][s], 0) / heads.length));
}

export const largest = (matrix: Matrix) => matrix.reduce((most, row) => row.reduce((x, y) => y > x ? y : x, most), 0);

/** Choices of layer, head, unit and the weight of the darkest colour, kept in the link. */
export function useParts(views: Views, scaled = true): { view: View | null; matrix: Matrix; highest: number; controls: preact.ComponentChildren } {
  const [unit, setUnit] = useValue("unit", "symbols"), [of, setLayer] = useValue("layer"), [head, setHead] = useValue("head"), [scale, setScale] = useValue("scale", "1");
  const view = views[unit] ?? views["symbols"] ?? null, layers = Object.keys(view?.alignments ?? {});
  const layer = layers.length === 1 ? layers[0] : of, heads = view?.alignments?.[layer]?.length ?? 0;
  const matrix = useMemo(() => view ? chosen(view, layer, head) : [], [view, layer, head]), most = useMemo(() => largest(matrix), [matrix]);
  const controls = <>
    {"words" in views && <Choice label="unit" value={unit} options={["symbols", "words"]} set={setUnit} />}
    {layers.length > 1 && <Choice label="layer" value={layer} options={[["", "the model's choice"], ...layers.map(name => [name, name] as [string, string])]} set={value => { setLayer(value); setHead(""); }} />}
    {heads > 1 && <Choice label="head" value={head} options={[["", "mean"], ...Array.from({ length: heads }, (_, i) => [String(i), String(i + 1)] as [string, string])]} set={setHead} />}
    {scaled && <Choice label="full colour at" value={scale} options={[["1", "weight 1"], ["largest", "the largest weight"]]} set={setScale} />}
  </>;
  return { view, matrix, highest: scale === "1" ? 1 : Math.max(most, 1e-9), controls };
}

/** All heads of all layers, small; a click shows one. */
export function Heads({ view, palette }: { view: View; palette: Palette }) {
  const [layer, setLayer] = useValue("layer"), [head, setHead] = useValue("head");
  const all = Object.entries(view.alignments ?? {});
  const pictures = useMemo(() => all.map(([name, heads]) => ({ name, urls: heads.map(matrix => painted(matrix, value => shade(palette.weights, value))) })), [view, palette]);
  if (all.reduce((sum, [, heads]) => sum + heads.length, 0) < 2) return null;
  return <div class="heads" role="group" aria-label="heads by layer">{pictures.map(({ name, urls }) => <div key={name}><span>{name}</span>
    {urls.map((url, i) => <Button aria-label={`layer ${name}, head ${i + 1}`} aria-pressed={layer === name && head === String(i)} onClick={() => { setLayer(name); setHead(String(i)); }}><img src={url} alt="" /></Button>)}</div>)}</div>;
}

/** The whole: tokens of both sides, the matrix, and the heads. */
export function Alignment({ views, sides = ["source", "output"], notes, choose, from = 0 }: { views: Views; sides?: [string, string]; notes?: string[]; choose?: (step: number) => void; from?: number }) {
  const palette = usePalette(), { view, matrix, highest, controls } = useParts(views);
  const [here, point] = useState<Place>(null), [row, setRow] = useState<number | null>(null), [column, setColumn] = useState<number | null>(null);
  if (!view) return null;
  const t = here?.t ?? row, s = here?.s ?? column;
  return <>
    <div class="fields">{controls}</div>
    <div class="line"><h3>{sides[1]}</h3><Chips label={sides[1]} popup={!!choose} here={t} point={setRow} choose={choose && (i => choose(i + from))}
      chips={view.tokens.map((text, i) => ({ text, note: notes?.[i], weight: s === null ? undefined : (matrix[i]?.[s] ?? 0) / highest }))} /></div>
    <div class="line"><h3>{sides[0]}</h3><Chips label={sides[0]} here={s} point={setColumn}
      chips={view.source_tokens.map((text, i) => ({ text, weight: t === null ? undefined : (matrix[t]?.[i] ?? 0) / highest }))} /></div>
    <Heat matrix={matrix} rows={view.tokens} columns={view.source_tokens} highest={highest} palette={palette} here={here} point={point} label={`weights, ${sides[0]} across, ${sides[1]} down`} />
    <p class="foot"><Scale highest={highest} palette={palette} /> <span>point at a token or a cell</span></p>
    <Heads view={view} palette={palette} />
  </>;
}
