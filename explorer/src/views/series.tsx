// Series: a table goes in, and forecasts with bands come out, with the weights of each step on the past.
import { useEffect, useMemo, useState } from "preact/hooks";
import { css, shade, usePalette } from "../colours";
import { widthOf } from "../heatmap";
import { change, packed, unpacked, useLink, useValue } from "../link";
import { type ViewProps, Choice, counted, Field, Figure, Scale, searchOf, Settings, Status, useAnswer, useWidth, Values } from "../parts";
import type { Matrix } from "../api";

interface Forecast {
  series: string; targets: string[]; history_times: string[]; history: (number | null)[][]; times: string[]; values: (number | null)[][];
  levels: number[]; quantiles: (number | null)[][][] | null; alignment: Matrix | null;
}
interface Forecasts { forecasts: unknown[]; warnings: string[]; details?: { series: Forecast[] } }
const LONGEST = 60_000, TALL = 190;

const shown = (x: number | null) => x === null ? "–" : Number(x.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 6 }).replace("-", "−");

export function SeriesView({ facts }: ViewProps) {
  const { values } = useLink(), [csv, setCsv] = useState(""), [note, setNote] = useState(""), [name, setName] = useValue("series");
  useEffect(() => { if (values.csv) unpacked(values.csv).then(setCsv, () => setNote("The table of the link cannot be read.")); }, []);
  const take = (text: string) => {
    setCsv(text);
    packed(text).then(short => { const fits = short.length < LONGEST; setNote(fits || !text ? "" : "The table is too large for a link, which restores everything else."); change({ csv: fits && text ? short : "" }); });
  };
  const read = (file: File | undefined) => { void file?.text().then(take); };
  const asked = useAnswer<{ predictions: Forecasts[] }>("v1/predict", csv.trim() ? { model: facts.name, inputs: [{ csv }], details: true, search: searchOf(facts, values, ["steps"]) } : null, 600);
  const found = asked.data?.predictions[0], all = found?.details?.series ?? [], one = all.find(each => each.series === name) ?? all[0];
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()} onDragOver={event => event.preventDefault()} onDrop={event => { event.preventDefault(); read(event.dataTransfer?.files[0]); }}>
      <Field label="table (CSV)" hint={`with ${String(facts.targets)} every ${String(facts.step)}, at least ${String(facts.history)} rows`}>{id => <textarea id={id} rows={6} value={csv} spellcheck={false} onInput={event => take(event.currentTarget.value)} />}</Field>
      <div class="fields"><div class="field"><label for="table">or a file; it may be dropped here</label><input id="table" type="file" accept=".csv,text/csv,text/plain" onChange={event => read(event.currentTarget.files?.[0])} /></div>
        <Settings facts={{ ...facts, decoding: { ...facts.decoding, steps: facts.decoding?.steps ?? facts.horizon } }} names={{ steps: { label: "steps", min: 1, max: 10000 } }} /></div>
      {note && <p class="warning">{note}</p>}
    </form>
    <Known csv={csv} set={take} known={String(facts.known ?? "").split(", ")} targets={String(facts.targets ?? "").split(", ")} />
    <Status answer={asked} said={one ? `${counted(one.times.length, "step")} of ${counted(all.length, "series", "series")}` : csv.trim() ? "" : "Paste a table, or choose a file."} warnings={found?.warnings} />
    {one && <div class={asked.busy ? "busy" : ""}>
      {all.length > 1 && <div class="fields"><Choice label="series" value={one.series} options={all.map(each => each.series)} set={setName} /></div>}
      <Figure title={one.series ? `Forecast of ${one.series}` : "Forecast"} name={facts.name} data={one}><Charts forecast={one} /></Figure>
    </div>}
  </>;
}

function Charts({ forecast }: { forecast: Forecast }) {
  const [ref, room] = useWidth<HTMLDivElement>(), palette = usePalette(), [step, setStep] = useState(0), [chosen, setChosen] = useValue("target");
  const { targets, history, values, quantiles, levels, alignment } = forecast, S = history.length, T = values.length, at = Math.min(step, T - 1);
  const drawn = chosen && targets.includes(chosen) ? [targets.indexOf(chosen)] : targets.slice(0, 8).map((_, f) => f);
  const left = 64, wide = Math.max(160, room - left - 8), x = (i: number) => left + (i + 0.5) / (S + T) * wide, weights = alignment?.[at], most = weights ? Math.max(1e-9, ...weights) : 1;
  const key = (event: KeyboardEvent) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) { event.preventDefault(); setStep(Math.min(T - 1, Math.max(0, at + move))); }
  };
  const over = (event: PointerEvent) => { const i = Math.floor((event.clientX - (event.currentTarget as Element).getBoundingClientRect().left - left) / wide * (S + T)) - S; if (i >= 0 && i < T) setStep(i); };
  const stamps = [...forecast.history_times, ...forecast.times], every = Math.max(1, Math.ceil((widthOf(stamps[0] ?? "") + 24) * (S + T) / wide));
  return <div ref={ref}>
    {targets.length > 1 && <div class="fields"><Choice label="target" value={chosen} options={[["", targets.length > 8 ? "the first 8" : "all"], ...targets.map(each => [each, each] as [string, string])]} set={setChosen} /></div>}
    {drawn.map(f => {
      const numbers = [...history.map(row => row[f]), ...values.map(row => row[f]), ...quantiles?.flatMap(row => row[f]) ?? []].filter(each => each !== null);
      const low = Math.min(...numbers), high = Math.max(...numbers), span = high - low || 1, y = (value: number) => 10 + (TALL - 20) * (1 - (value - low) / span);
      const line = (column: (number | null)[], first: number) => { let pen = false; return column.map((value, i) => { if (value === null) { pen = false; return ""; } const to = `${pen ? "L" : "M"}${x(first + i).toFixed(1)} ${y(value).toFixed(1)}`; pen = true; return to; }).join(""); };
      const Q = levels.length, bands = quantiles ? Array.from({ length: Math.floor(Q / 2) }, (_, q) => { const edge = (k: number) => values.map((_, t) => quantiles[t][f][k] ?? 0); const up = edge(Q - 1 - q), down = edge(q); return "M" + [...up.map((value, t) => `${x(S + t).toFixed(1)} ${y(value).toFixed(1)}`), ...down.map((value, t) => `${x(S + t).toFixed(1)} ${y(value).toFixed(1)}`).reverse()].join("L") + "Z"; }) : [];
      return <div class="scroll"><h3>{targets[f]}</h3><svg class="chart" width={left + wide + 8} height={TALL + 46} viewBox={`0 0 ${left + wide + 8} ${TALL + 46}`} tabindex={0} role="application" aria-label={`${targets[f]}: past and forecast; the arrow keys choose a step of the forecast`} onKeyDown={key} onPointerMove={over} font-size="12" font-family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif">
        <rect x={left} y="4" width={wide} height={TALL - 8} fill="none" stroke="var(--line)" />
        {weights?.map((weight, s) => <rect x={left + s / (S + T) * wide} y={TALL} width={wide / (S + T) + 0.3} height="12" fill={css(shade(palette.weights, weight / most))} />)}
        {alignment && <rect x={left} y={TALL} width={S / (S + T) * wide} height="12" fill="none" stroke="var(--line)" />}
        {[low, high].map(value => <text x={left - 6} y={y(value) + 4} text-anchor="end" fill="var(--faint)">{shown(value)}</text>)}
        {bands.map(band => <path d={band} fill="var(--accent)" opacity={0.5 / bands.length} />)}
        <line x1={left + S / (S + T) * wide} x2={left + S / (S + T) * wide} y1="4" y2={TALL - 4} stroke="var(--rule)" stroke-dasharray="3 3" />
        <path d={line(history.map(row => row[f]), 0)} fill="none" stroke="var(--ink)" stroke-width="1.5" />
        <path d={line(values.map(row => row[f]), S)} fill="none" stroke="var(--accent)" stroke-width="2" />
        {values[at][f] !== null && <><line x1={x(S + at)} x2={x(S + at)} y1="4" y2={TALL - 4} stroke="var(--mark)" /><circle cx={x(S + at)} cy={y(values[at][f]!)} r="4" fill="var(--mark)" /></>}
        {stamps.map((stamp, i) => i % every || x(i) + widthOf(stamp) > left + wide + 8 ? null : <text x={x(i)} y={TALL + 30} fill="var(--faint)">{stamp}</text>)}
      </svg></div>;
    })}
    <output class="reading" aria-live="polite">{`${forecast.times[at] || `step ${at + 1}`}: ${drawn.map(f => `${targets[f]} ${shown(values[at][f])}${quantiles ? ` (${shown(quantiles[at][f][0])} to ${shown(quantiles[at][f][levels.length - 1])})` : ""}`).join(", ")}${weights ? `; most weight on ${forecast.history_times[weights.indexOf(most)] ?? ""}` : ""}`}</output>
    <p class="foot">{alignment && <Scale highest={weights ? most : 1} palette={palette} />} <span>point at a step of the forecast{alignment && ": the strip shows its weights on the past"}</span>{quantiles && <span>bands: {levels.map(level => level.toString()).join(", ")}</span>}</p>
    <Values title="Table of the forecast" head={["time", ...drawn.flatMap(f => [targets[f], ...(quantiles ? levels.map(level => `${targets[f]} ${level}`) : [])])]} rows={values.map((row, t) => [forecast.times[t] || String(t + 1), ...drawn.flatMap(f => [shown(row[f]), ...(quantiles ? quantiles[t][f].map(shown) : [])])])} />
  </div>;
}

/** Inputs of the future that are known: rows without targets at the end of the table, whose numbers may be dragged. */
function Known({ csv, set, known, targets }: { csv: string; set: (csv: string) => void; known: string[]; targets: string[] }) {
  const [ref, room] = useWidth<HTMLElement>(), [held, hold] = useState<number | null>(null), [column, setColumn] = useState("");
  const table = useMemo(() => {
    const lines = csv.replace(/\r/g, "").split("\n"), mark = [",", ";", "\t"].find(each => lines[0]?.includes(each)) ?? ",", rows = lines.map(line => line.split(mark)), head = rows[0] ?? [];
    const at = targets.map(name => head.indexOf(name)).filter(i => i >= 0), names = known.filter(name => head.includes(name));
    const future = rows.map((_, i) => i).slice(1).filter(i => rows[i].length === head.length && at.length > 0 && at.every(k => !rows[i][k].trim()));
    const first = future.findIndex((row, i) => future.slice(i).every((each, k) => each === row + k));
    return { rows, mark, head, names, future: first < 0 || csv.includes('"') ? [] : future.slice(first) };
  }, [csv, known.join(), targets.join()]);
  const name = table.names.includes(column) ? column : table.names[0];
  if (!name || !table.future.length) return null;
  const k = table.head.indexOf(name), numbers = table.future.map(row => Number(table.rows[row][k]));
  if (numbers.some(Number.isNaN)) return null;
  const every = table.rows.slice(1).map(row => Number(row[k])).filter(Number.isFinite), low = Math.min(...every), high = Math.max(...every), span = high - low || 1, wide = Math.max(160, room - 72), tall = 120;
  const x = (i: number) => 64 + (i + 0.5) / numbers.length * wide, y = (value: number) => 8 + (tall - 16) * (1 - (value - low) / span);
  const put = (i: number, value: number) => { const rows = table.rows.map(row => [...row]); rows[table.future[i]][k] = String(Number(value.toPrecision(4))); set(rows.map(row => row.join(table.mark)).join("\n")); };
  const drag = (event: PointerEvent) => { if (held !== null) { const rect = (event.currentTarget as Element).getBoundingClientRect(); put(held, low + span * Math.min(1.2, Math.max(-0.2, 1 - (event.clientY - rect.top - 8) / (tall - 16)))); } };
  return <section class="figure" ref={ref} data-unseen aria-label="known inputs of the future"><div class="fields"><Choice label="known input, to drag" value={name} options={table.names} set={setColumn} /></div>
    <div class="scroll"><svg class="chart" width={wide + 72} height={tall} onPointerMove={drag} onPointerUp={() => hold(null)} onPointerLeave={() => hold(null)} font-size="12">
      <rect x="64" y="4" width={wide} height={tall - 8} fill="none" stroke="var(--line)" />
      {[low, high].map(value => <text x="58" y={y(value) + 4} text-anchor="end" fill="var(--faint)">{shown(value)}</text>)}
      <path d={numbers.map((value, i) => `${i ? "L" : "M"}${x(i)} ${y(value)}`).join("")} fill="none" stroke="var(--accent)" />
      {numbers.map((value, i) => <circle cx={x(i)} cy={y(value)} r="6" fill={held === i ? "var(--mark)" : "var(--accent)"} tabindex={0} role="slider" aria-label={`${name}, future row ${i + 1}`} aria-valuenow={value} aria-valuemin={low} aria-valuemax={high} onPointerDown={event => { event.preventDefault(); hold(i); }}
        onKeyDown={event => { const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key]; if (step) { event.preventDefault(); put(i, value + step * span / 50); } }} />)}
    </svg></div></section>;
}
