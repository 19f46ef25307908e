// Language models: continuations of a text, samples or the most probable ones, and what each token looked back at.
import { useMemo, useState } from "preact/hooks";
import { type Output, type Seen, seenOf } from "../api";
import { usePalette } from "../colours";
import { Heads, Heat, type Place, useParts } from "../heatmap";
import { change, useLink } from "../link";
import { type ViewProps, Button, Chips, counted, decimals, Figure, Scale, searchOf, Settings, Status, Text, useAnswer } from "../parts";
import { BeamTree } from "../tree";
import type { Searched } from "./text";

const CONTINUING = {
  method: { label: "method", options: ["sampling", "beam"] }, max_length: { label: "tokens", min: 1, max: 1000 }, temperature: { label: "temperature", min: 0.05, max: 5, step: 0.05 },
  top_k: { label: "of the top k", min: 1, max: 1000 }, top_p: { label: "of the top p", min: 0.05, max: 1, step: 0.05 }, min_p: { label: "of at least p", min: 0, max: 1, step: 0.05 },
  seed: { label: "seed", min: 0, max: 1e9 }, beam: { label: "beam", min: 1, max: 64 }, num_best: { label: "outputs", min: 1, max: 64 },
};
const OF = { sampling: ["temperature", "top_k", "top_p", "min_p", "seed"], beam: ["beam", "num_best"] };

export function LanguageView({ facts }: ViewProps) {
  const { values } = useLink(), input = values.input ?? "", method = (values.method ?? String(facts.decoding?.method ?? "sampling")) as keyof typeof OF;
  const names = ["method", "max_length", ...OF[method] ?? []], asking = useMemo(() => Object.fromEntries(names.map(name => [name, CONTINUING[name as keyof typeof CONTINUING]])), [method]);
  const common = { model: facts.name, search: searchOf(facts, values, names) }, live = method === "sampling";
  const sampled = useAnswer<Output>("v1/predict", live && input ? { ...common, inputs: [input], details: true, stream: true } : null, 500);
  const searched = useAnswer<Searched>("v1/explore/search", !live && input ? { ...common, input } : null, 500);
  const asked = live ? sampled : searched, search = live ? null : searched.data, given = live ? sampled.data : search?.prediction, before: string = asked.of && (live ? JSON.parse(asked.of).inputs[0] : JSON.parse(asked.of).input);
  const outputs = useMemo(() => seenOf(given ?? undefined), [given]), pick = Math.min(Number(values.pick ?? 0), Math.max(0, outputs.length - 1)), seen = outputs[pick], output = seen?.output;
  const draw = () => change({ seed: String(Math.floor(Math.random() * 1e6)), pick: "" }, true);
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()}>
      <Text rows={4} label="text" value={input} set={value => change({ input: value, pick: "" })} />
      <Settings facts={facts} names={asking} />
      <div class="actions">{live && <Button class="main" onClick={draw}>Another sample</Button>}
        {output && <Button onClick={() => change({ input: input + output.text, pick: "" }, true)}>Take it, and go on</Button>}</div>
    </form>
    <Status answer={asked} said={output ? `${counted(output.tokens.length, "token")}, log-probability ${decimals(output.log_probability)}` : "Type the beginning of a text."} warnings={output?.warnings} />
    {sampled.busy && sampled.partial && <p class="continued" dir="auto"><span class="faint">{input}</span><b>{sampled.partial}</b></p>}
    {output && <div class={asked.busy ? "busy" : ""}>
      <Figure title="Continuation" name={facts.name} data={outputs.map(each => each.output)}>
        {outputs.map((each, i) => <p class="continued" dir="auto">{outputs.length > 1 && <label><input type="radio" name="pick" checked={i === pick} onChange={() => change({ pick: i ? String(i) : "" })} aria-label={`output ${i + 1}`} /> </label>}<span class="faint">{before}</span><b>{each.output.text}</b></p>)}
      </Figure>
      {seen.views.symbols && <Figure title="What each token looked back at" name={facts.name} data={seen.views}><Back seen={seen} take={tokens => change({ input: input + tokens, pick: "" }, true)} /></Figure>}
      {search?.tree ? <Figure title="The search" name={facts.name} data={search.tree}><BeamTree tree={search.tree} steer={{ go: symbols => change({ input: input + symbols.join(""), pick: "" }, true) }} /></Figure> : search?.note && <p class="faint">{search.note}</p>}
    </div>}
  </>;
}

/** Rows predict the tokens after the first; columns are the tokens before them. */
function Back({ seen: { output, views }, take }: { seen: Seen; take: (tokens: string) => void }) {
  const palette = usePalette(), { view, matrix, highest, controls } = useParts(views), [row, setRow] = useState<number | null>(null), [here, point] = useState<Place>(null), [held, hold] = useState<number | null>(null);
  if (!view || !matrix.length) return null;
  const S = view.source_tokens.length, T = view.tokens.length, before = S - T + 1, given = view.prompt?.[0] ?? before;
  const tokens = [...view.source_tokens, view.tokens[T - 1]], t = here?.t ?? row ?? (held !== null && held < T ? held : null);
  const weights = t === null ? null : matrix[t], most = weights ? Math.max(1e-9, ...weights) : 1;
  const piece = held === null ? "" : tokens.slice(given, held + before + 1).join("");
  return <>
    <div class="fields">{controls}</div>
    <Chips plain label="tokens; pointing at one colours those that it looked back at" here={t === null ? null : t + before} point={i => setRow(i === null || i < before ? null : i - before)} choose={i => hold(i < before || held === i - before ? null : i - before)}
      chips={tokens.map((text, i) => ({ text, weight: weights && i < S && weights[i] > 0 ? weights[i] / most : undefined, faint: i < given }))} />
    {piece && output.text.startsWith(piece) && <div class="actions"><Button onClick={() => { hold(null); take(piece); }}>Go on after this token</Button></div>}
    <p class="foot"><Scale highest={t === null ? highest : most} palette={palette} /> <span>point at a token: what it looked back at; a click keeps it</span></p>
    <Heat matrix={matrix} rows={view.tokens} columns={view.source_tokens} highest={highest} palette={palette} here={here} point={point} label="weights, text before across, next token down" />
    <Heads view={view} palette={palette} />
  </>;
}
