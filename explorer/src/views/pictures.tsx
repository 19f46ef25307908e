// Pictures to text: upload or draw, and see which part of the picture each word looked at, and which words a part gave.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type ViewProps, Button, Chips, counted, Figure, Scale, searchOf, Settings, Status, useAnswer } from "../parts";
import { css, painted, usePalette } from "../colours";
import { Heads, largest, useParts } from "../heatmap";
import { change, packed, unpacked, useLink } from "../link";
import { BeamTree } from "../tree";
import { Constrained, constraintsOf, Outputs, SEARCH, type Searched, useSteering } from "./text";
import { type Picture, type Seen, seenOf } from "../api";

type Strokes = [number, number][][];

const WIDE = 640, TALL = 260, LONGEST = 60_000;
/** Whether a model reads strokes: handwriting is drawn for it, rendered as in training. */
const reads = (schema: unknown, name: string) => JSON.stringify(schema ?? {}).includes(`"${name}"`);

/** A sheet to write on with a mouse, a pen or a finger; the arrow keys and space write, too. */
function Board({ strokes, set }: { strokes: Strokes; set: (strokes: Strokes) => void }) {
  const ref = useRef<HTMLCanvasElement>(null), line = useRef<[number, number][] | null>(null), [pen, setPen] = useState<[number, number]>([40, 40]), [down, setDown] = useState(false);
  const draw = (all: Strokes) => {
    const canvas = ref.current!, ink = canvas.getContext("2d")!, scale = devicePixelRatio || 1;
    canvas.width = WIDE * scale; canvas.height = TALL * scale;
    ink.scale(scale, scale); ink.lineWidth = 3; ink.lineCap = ink.lineJoin = "round"; ink.strokeStyle = "#1b1f24";
    for (const points of all) { ink.beginPath(); points.forEach(([x, y], i) => i ? ink.lineTo(x, y) : ink.moveTo(x, y)); if (points.length === 1) ink.lineTo(points[0][0] + 0.1, points[0][1]); ink.stroke(); }
  };
  useEffect(() => draw(strokes), [strokes]);
  const at = (event: PointerEvent): [number, number] => { const rect = ref.current!.getBoundingClientRect(); return [Math.round((event.clientX - rect.left) / rect.width * WIDE), Math.round((event.clientY - rect.top) / rect.height * TALL)]; };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowRight: [6, 0], ArrowLeft: [-6, 0], ArrowDown: [0, 6], ArrowUp: [0, -6] }[event.key];
    if (event.key === " ") { event.preventDefault(); setDown(!down); if (!down) set([...strokes, [pen]]); return; }
    if (!step) return;
    event.preventDefault();
    const next: [number, number] = [Math.min(WIDE, Math.max(0, pen[0] + step[0])), Math.min(TALL, Math.max(0, pen[1] + step[1]))];
    setPen(next);
    if (down) set([...strokes.slice(0, -1), [...strokes[strokes.length - 1] ?? [], next]]);
  };
  return <><canvas ref={ref} class="board" style={{ width: WIDE + "px", aspectRatio: `${WIDE} / ${TALL}` }} tabIndex={0} role="application" aria-label={`sheet to write on; space ${down ? "lifts" : "lowers"} the pen at ${pen.join(", ")}, the arrow keys move it`} onKeyDown={key}
    onPointerDown={event => { ref.current!.setPointerCapture(event.pointerId); line.current = [at(event)]; draw([...strokes, line.current]); }}
    onPointerMove={event => { if (line.current) { line.current.push(at(event)); draw([...strokes, line.current]); } }}
    onPointerUp={() => { if (line.current) { const points = line.current; line.current = null; set([...strokes, points]); } }} />
    <div class="actions"><Button disabled={!strokes.length} onClick={() => set(strokes.slice(0, -1))}>Undo a stroke</Button><Button disabled={!strokes.length} onClick={() => set([])}>Clear</Button></div></>;
}

/** Strokes as a picture: black on white, cut to what was written. */
function rendered(strokes: Strokes): string {
  const points = strokes.flat(), xs = points.map(([x]) => x), ys = points.map(([, y]) => y), margin = 10, x0 = Math.min(...xs) - margin, y0 = Math.min(...ys) - margin;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...xs) + margin - x0; canvas.height = Math.max(...ys) + margin - y0;
  const ink = canvas.getContext("2d")!;
  ink.fillStyle = "#fff"; ink.fillRect(0, 0, canvas.width, canvas.height);
  ink.lineWidth = 3; ink.lineCap = ink.lineJoin = "round";
  for (const line of strokes) { ink.beginPath(); line.forEach(([x, y], i) => i ? ink.lineTo(x - x0, y - y0) : ink.moveTo(x - x0, y - y0)); if (line.length === 1) ink.lineTo(line[0][0] - x0 + 0.1, line[0][1] - y0); ink.stroke(); }
  return canvas.toDataURL("image/png").split(",")[1];
}

async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

export function PicturesView({ facts }: ViewProps) {
  const { values } = useLink(), [image, setImage] = useState(values.image ?? ""), [strokes, setStrokes] = useState<Strokes>([]), [note, setNote] = useState(""), steer = useSteering();
  const writes = values.by ? values.by === "strokes" : reads(facts.input?.schema, "strokes") && !reads(facts.input?.schema, "image");
  useEffect(() => { if (values.strokes) unpacked(values.strokes).then(text => setStrokes(JSON.parse(text)), () => setNote("The strokes of the link cannot be read.")); }, []);
  const write = (next: Strokes) => { setStrokes(next); packed(JSON.stringify(next)).then(text => change({ strokes: next.length && text.length < LONGEST ? text : "", pick: "", prefix: "" })); };
  const take = async (file: Blob | undefined) => {
    if (!file) return;
    const text = await base64(file);
    setImage(text);
    setNote(text.length < LONGEST ? "" : "The picture is too large for a link, which restores everything else.");
    change({ image: text.length < LONGEST ? text : "", pick: "", prefix: "" }, true);
  };
  useEffect(() => {
    const paste = (event: ClipboardEvent) => { const file = [...event.clipboardData?.files ?? []].find(each => each.type.startsWith("image/")); if (file) { change({ by: "image" }); void take(file); } };
    addEventListener("paste", paste);
    return () => removeEventListener("paste", paste);
  }, []);
  const asStrokes = values.as !== "picture" && reads(facts.input?.schema, "strokes");
  const input = writes ? strokes.length ? asStrokes ? { strokes } : { image: rendered(strokes) } : null : image ? { image } : null;
  const asked = useAnswer<Searched>("v1/explore/search", input ? { model: facts.name, input, search: searchOf(facts, values, Object.keys(SEARCH)), constraints: constraintsOf(values) } : null, 500);
  const outputs = useMemo(() => seenOf(asked.data?.prediction), [asked.data]), texts = outputs.map(each => each.output), pick = Math.min(Number(values.pick ?? 0), Math.max(0, outputs.length - 1)), seen = outputs[pick], output = seen?.output;
  const picture = asked.data?.prediction.details?.picture;
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()} onDragOver={event => event.preventDefault()} onDrop={event => { event.preventDefault(); change({ by: "image" }); void take(event.dataTransfer?.files[0]); }}>
      <div class="actions" role="group" aria-label="kind of input"><Button aria-pressed={!writes} class={writes ? "" : "main"} onClick={() => change({ by: "image" })}>Picture</Button><Button aria-pressed={writes} class={writes ? "main" : ""} onClick={() => change({ by: "strokes" })}>Write</Button></div>
      {writes ? <Board strokes={strokes} set={write} /> : <div class="field"><label for="picture">picture: choose, paste or drop one</label><input id="picture" type="file" accept="image/*" onChange={event => take(event.currentTarget.files?.[0])} /></div>}
      {note && <p class="warning">{note}</p>}
      <Constrained facts={facts} />
      <details><summary>Search</summary><Settings facts={facts} names={SEARCH} /></details>
    </form>
    <Status answer={asked} said={output ? `${counted(outputs.length, "output")}; the best: ${texts[0].text || "empty"}` : writes ? "Write on the sheet." : "Choose a picture."} warnings={output?.warnings} />
    {output && <div class={asked.busy ? "busy panel" : "panel"}>
      <div><Figure title="Outputs" name={facts.name} data={texts}><Outputs outputs={texts} pick={pick} set={each => change({ pick: each ? String(each) : "" })} name="pick" /></Figure>
        {picture && seen.views.symbols && <Figure title="What each word looked at" name={facts.name} data={seen.views}><Maps picture={picture} seen={seen} /></Figure>}</div>
      <div>{asked.data!.tree ? <Figure title="The search" name={facts.name} data={asked.data!.tree}><BeamTree tree={asked.data!.tree} steer={steer} /></Figure> : asked.data!.note && <p class="faint">{asked.data!.note}</p>}</div>
    </div>}
  </>;
}

/** The picture under the weights of a word; a cell of the picture colours the words that looked at it. */
function Maps({ picture, seen }: { picture: Picture; seen: Seen }) {
  const palette = usePalette(), { view, matrix, controls } = useParts(seen.views, false), [word, setWord] = useState<number | null>(null), [held, hold] = useState(0), [cell, setCell] = useState<number | null>(null);
  const [rows, columns] = picture.grid, t = cell !== null ? null : word ?? Math.min(held, matrix.length - 1);
  const url = useMemo(() => {
    if (t === null || !matrix[t]) return "";
    const most = Math.max(1e-9, ...matrix[t]);
    return painted(Array.from({ length: rows }, (_, y) => matrix[t].slice(y * columns, (y + 1) * columns)), value => { const grey = 70 + 185 * Math.min(1, Math.max(0, value / most)); return [grey, grey, grey]; });
  }, [matrix, t]);
  if (!view) return null;
  const highest = Math.max(1e-9, largest(matrix)), side = picture.cell, scale = Math.max(1, Math.min(12, 480 / picture.width, 360 / picture.height)), width = columns * side, height = rows * side;
  const over = (event: PointerEvent) => {
    const rect = (event.currentTarget as Element).getBoundingClientRect(), x = Math.floor((event.clientX - rect.left) / rect.width * picture.width / side), y = Math.floor((event.clientY - rect.top) / rect.height * picture.height / side);
    setCell(x >= 0 && x < columns && y >= 0 && y < rows ? y * columns + x : null);
  };
  const key = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (event.key === "Escape") setCell(null);
    if (!step) return;
    event.preventDefault();
    const next = (cell ?? -step) + step;
    if (next >= 0 && next < rows * columns) setCell(next);
  };
  return <>
    <div class="fields">{controls}</div>
    <Chips label="words; pointing at one shows where it looked" here={t} point={setWord} choose={hold} chips={view.tokens.map((text, i) => ({ text, weight: cell === null ? undefined : (matrix[i]?.[cell] ?? 0) / highest }))} />
    <div class="scroll"><svg class="seen chart" width={picture.width * scale} viewBox={`0 0 ${picture.width} ${picture.height}`} height={picture.height * scale} tabindex={0} role="application" aria-label="the picture; the arrow keys move over its cells, Escape leaves them" onPointerMove={over} onPointerLeave={() => setCell(null)} onKeyDown={key} onBlur={() => setCell(null)}>
      <image href={picture.image} width={picture.width} height={picture.height} preserveAspectRatio="none" style={scale > 3 ? "image-rendering: pixelated" : ""} />
      {url && <image href={url} x={picture.shift} y={picture.shift} width={width} height={height} preserveAspectRatio="none" style="image-rendering: pixelated; mix-blend-mode: multiply" />}
      {cell !== null && <rect x={cell % columns * side + picture.shift} y={Math.floor(cell / columns) * side + picture.shift} width={side} height={side} fill="none" stroke={css([216, 90, 0])} stroke-width={2 / scale} />}
    </svg></div>
    <output class="reading" aria-live="polite">{cell !== null ? `row ${Math.floor(cell / columns) + 1}, column ${cell % columns + 1}: ${view.tokens.map((token, i) => [token, matrix[i][cell]] as const).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([token, weight]) => `${token} ${weight.toFixed(3)}`).join(", ")}` : t !== null && view.tokens[t] ? `${view.tokens[t]} looks here` : " "}</output>
    <p class="foot"><Scale highest={highest} palette={palette} /> <span>point at a word: bright is where it looked; or at the picture: which words looked there</span></p>
    <Heads view={view} palette={palette} />
  </>;
}
