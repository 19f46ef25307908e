// Documents: words coloured by weight, probabilities, and what changes without a word.
import { useMemo, useState } from "preact/hooks";
import { type ViewProps, Button, Chips, Choice, Figure, Meter, percent, Scale, Status, Text, useAnswer, Values } from "../parts";
import { usePalette } from "../colours";
import { change, useLink, useValue } from "../link";

interface Classified { labels: string[]; probabilities: Record<string, number>; confidences?: Record<string, number>; confidence?: number; sentences?: string[][]; word_weights?: number[][]; sentence_weights?: number[]; warnings: string[]; details?: { word?: number[][][]; sentence?: number[][] } }
interface Span { start: number; end: number }

/** Where the words that the model read stand in the text; null for those that are not found. */
function places(text: string, words: string[]): (Span | null)[] {
  const low = text.toLowerCase(), same = low.length === text.length ? low : text;
  let at = 0;
  return words.map(word => {
    const start = same.indexOf(word, at) < 0 ? same.indexOf(word.toLowerCase(), at) : same.indexOf(word, at);
    if (start < 0 || start > at + 200) return null;
    at = start + word.length;
    return { start, end: at };
  });
}

function without(text: string, spans: (Span | null)[]): string {
  return spans.filter(span => span !== null).sort((a, b) => b.start - a.start).reduce((rest, { start, end }) => rest.slice(0, start) + rest.slice(end), text).replace(/[ \t]{2,}/g, " ");
}

export function DocumentsView({ facts }: ViewProps) {
  const { values } = useLink(), input = values.input ?? "", [removed] = useValue("without"), [shown, setShown] = useValue("colour", "weight"), [head, setHead] = useValue("head");
  const palette = usePalette(), [here, point] = useState<number | null>(null), [all, setAll] = useState(false);
  const whole = useAnswer<{ predictions: Classified[] }>("v1/predict", input.trim() ? { model: facts.name, inputs: [input], confidence: true, details: true } : null);
  const first = whole.data?.predictions[0] ?? null, read = whole.of ? JSON.parse(whole.of).inputs[0] as string : "";
  const words = useMemo(() => first?.sentences?.flat() ?? [], [first]), spans = useMemo(() => places(read, words), [read, words]);
  const out = useMemo(() => new Set(removed.split(",").filter(Boolean).map(Number)), [removed]);
  const rest = out.size ? without(read, [...out].map(i => spans[i] ?? null)) : "";
  const changed = useAnswer<{ predictions: Classified[] }>("v1/predict", rest.trim() && first ? { model: facts.name, inputs: [rest] } : null);
  const after = out.size ? changed.data?.predictions[0] ?? null : null;
  const most = 250, leaving = useMemo(() => spans.slice(0, most).map(span => without(read, [span])), [read, spans]);
  const each = useAnswer<{ predictions: Classified[] }>("v1/predict", (all || shown === "without") && leaving.length && leaving.every(text => text.trim()) ? { model: facts.name, inputs: leaving } : null);
  const label = first?.labels[0] ?? Object.keys(first?.probabilities ?? {})[0] ?? "";
  const effects = useMemo(() => each.data && first ? each.data.predictions.map(other => (first.probabilities[label] ?? 0) - (other.probabilities[label] ?? 0)) : null, [each.data, first, label]);
  const heads = first?.details?.word?.length ?? 0, one = head === "" ? null : Number(head);
  const weights = useMemo(() => {
    if (!first?.sentences) return [];
    const matrix = one !== null && first.details?.word?.[one] ? first.details.word[one] : first.word_weights, outer = one !== null && first.details?.sentence?.[one] ? first.details.sentence[one] : first.sentence_weights;
    return first.sentences.flatMap((sentence, s) => sentence.map((_, w) => (matrix?.[s]?.[w] ?? 0) * (outer?.[s] ?? 1)));
  }, [first, one]);
  const byEffect = shown === "without" && effects, values_ = byEffect ? effects : weights, highest = Math.max(1e-9, ...values_.map(Math.abs));
  const toggle = (i: number) => { const next = new Set(out); if (!next.delete(i)) next.add(i); change({ without: [...next].sort((a, b) => a - b).join(",") }); };
  let start = 0;
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()}><Text rows={5} label="document" value={input} set={value => change({ input: value, without: "" })} /></form>
    <Status answer={whole} said={first ? `${first.labels.join(", ") || "no label"}` : "Type or paste a text."} warnings={first?.warnings} />
    {first && <div class={whole.busy ? "busy" : ""}>
      <Figure title="Labels" name={facts.name} data={{ whole: first, without: after }}>
        <div class="scroll"><table class="outputs"><thead><tr><th scope="col">label</th><th scope="col">probability</th>{after && <th scope="col">without the removed words</th>}{after && <th scope="col">change</th>}</tr></thead>
          <tbody>{Object.entries(first.probabilities).slice(0, 20).map(([name, value]) => <tr class={first.labels.includes(name) ? "here" : ""}><th scope="row" dir="auto">{name}</th><td><Meter value={value} /></td>
            {after && <td><Meter value={after.probabilities[name] ?? 0} /></td>}{after && <td>{((after.probabilities[name] ?? 0) - value > 0 ? "+" : "−") + percent(Math.abs((after.probabilities[name] ?? 0) - value))}</td>}</tr>)}</tbody></table></div>
        {first.confidence != null && <p>Confidence {percent(first.confidence)}</p>}
      </Figure>
      {words.length > 0 && <Figure title="Words" name={facts.name} data={words.map((word, i) => ({ word, weight: weights[i], effect: effects?.[i] }))}
        tools={<div class="fields" data-unseen><Choice label="colour" value={shown} options={[...(first.word_weights ? [["weight", "weight of attention"] as [string, string]] : []), ["without", `change of “${label}” without the word`]]} set={value => { setShown(value); setAll(value === "without"); }} />
          {heads > 1 && shown === "weight" && <Choice label="head" value={head} options={[["", "mean"], ...Array.from({ length: heads }, (_, i) => [String(i), String(i + 1)] as [string, string])]} set={setHead} />}</div>}>
        {shown === "without" && each.error && <p class="error" role="alert">{each.error}</p>}
        {first.sentences!.map((sentence, s) => {
          const offset = start; start += sentence.length;
          return <div class="line"><h3 class="number">{first.sentence_weights && first.sentences!.length > 1 ? percent(first.sentence_weights[s]) : ""}</h3>
            <Chips plain label={`sentence ${s + 1}; a click removes a word`} here={here !== null && here >= offset && here < start ? here - offset : null} point={i => point(i === null ? null : offset + i)} choose={i => toggle(offset + i)} table={byEffect ? palette.signed : undefined}
              chips={sentence.map((text, i) => ({ text, weight: out.has(offset + i) ? undefined : byEffect ? 0.5 + (effects[offset + i] ?? 0) / highest / 2 : weights[offset + i] / highest, struck: out.has(offset + i) }))} /></div>;
        })}
        <output class="reading" aria-live="polite">{here !== null && words[here] ? <><b>{words[here]}</b> weight {percent(weights[here] ?? 0)}{effects && `; without it “${label}” has ${effects[here] > 0 ? "−" : "+"}${percent(Math.abs(effects[here] ?? 0))}`}</> : " "}</output>
        <p class="foot">{byEffect ? <Scale lowest={-highest} highest={highest} palette={palette} table={palette.signed} name={`for “${label}”`} /> : <Scale highest={highest} palette={palette} name="weight" />} <span>a click removes a word</span>
          {out.size > 0 && <Button onClick={() => change({ without: "" })}>Put all words back</Button>}</p>
        <Values title="Table of words" head={["word", "weight", ...(effects ? [`change of ${label} without it`] : [])]} rows={words.map((word, i) => [word, weights[i]?.toFixed(4) ?? "", ...(effects ? [(-(effects[i] ?? 0)).toFixed(4)] : [])])} />
      </Figure>}
    </div>}
  </>;
}
