// Speech: type, hear, and see when each symbol is read: spectrogram, alignment and stop probability on one axis of time.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Matrix } from "../api";
import { painted, shade, usePalette } from "../colours";
import { widthOf } from "../heatmap";
import { change, useLink } from "../link";
import { type ViewProps, Chips, Choice, decimals, Figure, Scale, searchOf, Settings, Status, Text, useAnswer, useWidth, Values, visible } from "../parts";

interface Spoken {
  text: string; seconds: number; frames: number; stop_reason: string; tokens: string[]; warnings: string[]; alignment?: Matrix; sound?: string | null;
  details?: { levels: Matrix; frame_edges: number[]; step_edges: number[]; stop: number[] | null; read: number[] };
}
const SPEAKING = {
  pace: { label: "pace", min: 0.25, max: 4, step: 0.05 },
  stop_threshold: { label: "stops at", min: 0.01, max: 0.99, step: 0.01 }, max_frames_per_unit: { label: "most frames a symbol", min: 1, max: 100 },
  attention_stop: { label: "stops after steps on the end", min: 1, max: 100 }, seed: { label: "seed", min: 0, max: 1e6 },
};

export function SpeechView({ facts }: ViewProps) {
  const { values } = useLink(), [text, setText] = useState(values.input ?? ""), said = values.input ?? "", { pace, ...others } = SPEAKING, own = facts.can?.pace ? { pace, ...others } : others;
  const asked = useAnswer<{ predictions: Spoken[] }>("v1/predict", said.trim() ? { model: facts.name, inputs: [said], sound: true, details: true, search: searchOf(facts, values, Object.keys(own)) } : null, 50);
  const spoken = asked.data?.predictions[0];
  const speak = () => change({ input: text }, true);
  return <>
    <form class="asking" data-unseen onSubmit={event => { event.preventDefault(); speak(); }}>
      <Text rows={2} label="text" value={text} set={setText} onEnter={speak} />
      <details><summary>Settings</summary><Settings facts={facts} names={own} /></details>
      <div class="actions"><button class="main">Speak</button></div>
    </form>
    <Status answer={asked} said={spoken ? `${decimals(spoken.seconds)} seconds; ended by ${spoken.stop_reason}` : "Type a text."} warnings={spoken?.warnings} />
    {spoken && <div class={asked.busy ? "busy" : ""}><Figure title="Speech" name={facts.name} data={(({ sound: _, ...rest }) => rest)(spoken)}>{spoken.details && spoken.alignment ? <Heard spoken={spoken} /> : <p class="faint">Nothing was said.</p>}</Figure></div>}
  </>;
}

function Heard({ spoken }: { spoken: Spoken }) {
  const palette = usePalette(), [ref, room] = useWidth<HTMLDivElement>(), audio = useRef<HTMLAudioElement>(null), [time, setTime] = useState(0), [speed, setSpeed] = useState("1");
  const { levels, frame_edges: frames, step_edges: steps, stop, read } = spoken.details!, alignment = spoken.alignment!, symbols = spoken.tokens, S = symbols.length, end = frames[frames.length - 1];
  const url = useMemo(() => spoken.sound ? "data:audio/wav;base64," + spoken.sound : "", [spoken.sound]);
  const mel = useMemo(() => painted(levels[0]?.map((_, band) => levels.map(frame => frame[levels[0].length - 1 - band])) ?? [], value => shade(palette.levels, value)), [levels, palette]);
  const weights = useMemo(() => painted(symbols.map((_, s) => alignment.map(step => step[s])), value => shade(palette.weights, value)), [alignment, palette]);
  useEffect(() => {
    const player = audio.current;
    if (!player) return;
    let frame = 0;
    const follow = () => { setTime(player.currentTime); frame = player.paused ? 0 : requestAnimationFrame(follow); };
    const start = () => { cancelAnimationFrame(frame); follow(); };
    for (const name of ["play", "seeked", "pause"]) player.addEventListener(name, start);
    return () => { cancelAnimationFrame(frame); for (const name of ["play", "seeked", "pause"]) player.removeEventListener(name, start); };
  }, [url]);
  useEffect(() => { if (audio.current) audio.current.playbackRate = Number(speed); }, [speed, url]);
  const step = Math.max(0, steps.findLastIndex((edge, i) => edge <= time && i < steps.length - 1)), here = alignment[step]?.indexOf(Math.max(...alignment[step])) ?? 0;
  const jump = (seconds: number) => { const to = Math.min(end, Math.max(0, seconds)); setTime(to); if (audio.current) audio.current.currentTime = to; };
  const left = Math.min(110, 12 + Math.max(22, ...symbols.map(symbol => widthOf(visible(symbol))))), wide = Math.max(120, room - left - 8), row = Math.max(3, Math.min(17, 620 / S));
  const melTop = 4, mapTop = 144, stopTop = mapTop + S * row + 10, bottom = stop ? stopTop + 56 : mapTop + S * row, height = bottom + 22, x = (seconds: number) => left + seconds / end * wide;
  // cells are equally long but for the first, of which only the half after 0 is heard, and the last
  const placed = (edges: number[]) => { const cell = edges.length > 2 ? edges[2] - edges[1] : edges[1]; const first = edges.length > 2 ? edges[1] - cell : 0; return { x: x(first), width: (edges.length - 1) * cell / end * wide }; };
  const ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10].find(each => each / end * wide > 55) ?? 20, each = Math.max(1, Math.ceil(13 / row));
  const key = (event: KeyboardEvent) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === " ") { event.preventDefault(); const player = audio.current; if (player) player.paused ? void player.play() : player.pause(); }
    if (move) { event.preventDefault(); jump((steps[Math.min(steps.length - 2, Math.max(0, step + move))] ?? 0) + 1e-4); }
  };
  const click = (event: PointerEvent) => jump((event.clientX - (event.currentTarget as Element).getBoundingClientRect().left - left) / wide * end);
  const firsts = symbols.map((_, s) => alignment.reduce((most, weights, t) => weights[s] > alignment[most][s] ? t : most, 0));
  return <>
    {url && <div class="actions" data-unseen><audio ref={audio} controls src={url} aria-label={`the sound of ${spoken.text}`} />
      <Choice label="speed" value={speed} options={["0.25", "0.5", "0.75", "1", "1.5"].map(value => [value, value + " ×"] as [string, string])} set={setSpeed} /></div>}
    <Chips label="symbols; a click jumps to when it is read" here={here} chips={symbols.map((text, s) => ({ text, faint: !read.includes(s) }))} choose={s => jump(steps[firsts[s]] + 1e-4)} popup />
    <div ref={ref} class="scroll"><svg class="chart" width={left + wide + 8} height={height} viewBox={`0 0 ${left + wide + 8} ${height}`} tabindex={0} role="application" aria-label="spectrogram, alignment of symbols and stop probability over time; space plays, the arrow keys move" onKeyDown={key} onPointerDown={click} font-size="12" font-family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif">
      <clipPath id="heard"><rect x={left} y="0" width={wide} height={height} /></clipPath>
      <g clip-path="url(#heard)">
        <image href={mel} y={melTop} height="130" preserveAspectRatio="none" style="image-rendering: pixelated" {...placed(frames)} />
        <image href={weights} y={mapTop} height={S * row} preserveAspectRatio="none" style="image-rendering: pixelated" {...placed(steps)} />
        {stop && <path d={stop.map((value, i) => `${i ? "L" : "M"}${x((frames[i] + frames[i + 1]) / 2).toFixed(1)} ${(stopTop + 52 - 48 * value).toFixed(1)}`).join("")} fill="none" stroke="var(--right)" stroke-width="1.5" />}
        <line x1={x(time)} x2={x(time)} y1={melTop} y2={bottom} stroke="var(--mark)" stroke-width="2" />
      </g>
      <rect x={left} y={melTop} width={wide} height="130" fill="none" stroke="var(--line)" /><rect x={left} y={mapTop} width={wide} height={S * row} fill="none" stroke="var(--line)" />
      {stop && <><rect x={left} y={stopTop} width={wide} height="56" fill="none" stroke="var(--line)" /><text x={left - 6} y={stopTop + 32} text-anchor="end" fill="var(--faint)">stop</text></>}
      <text x={left - 6} y="72" text-anchor="end" fill="var(--faint)">mel</text>
      {symbols.map((symbol, s) => s % each ? null : <text x={left - 6} y={mapTop + (s + 0.5) * row + 4} text-anchor="end" fill={s === here ? "var(--mark)" : "var(--ink)"}>{visible(symbol)}</text>)}
      {Array.from({ length: Math.floor(end / ticks) + 1 }, (_, i) => <text x={x(i * ticks)} y={bottom + 16} text-anchor={i ? "middle" : "start"} fill="var(--faint)">{Number((i * ticks).toFixed(2))} s</text>)}
    </svg></div>
    <output class="reading">{`${time.toFixed(2)} s: `}<b>{visible(symbols[here] ?? "")}</b>{` ${decimals(alignment[step]?.[here], 3)}`}</output>
    <p class="foot"><Scale highest={1} palette={palette} /> <span>a click goes there, space plays, the arrow keys move</span></p>
    <Values title="Table of times" head={["symbol", "most weight at", "weight"]} rows={symbols.map((symbol, s) => [visible(symbol), `${decimals(steps[firsts[s]])} s`, decimals(alignment[firsts[s]]?.[s], 3)])} />
  </>;
}
