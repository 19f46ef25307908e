// Text to text: outputs, alignment, the search as a tree, and what changes if the input or the output is forced.
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Answer as Asked, type ViewProps, Button, Chips, Choice, counted, decimals, Figure, Meter, searchOf, Settings, Status, Text, useAnswer, visible } from "../parts";
import { call, type Constraints, type Facts, type Near, type Output, type Seen, seenOf, type Tree } from "../api";
import { Difference } from "../difference";
import { Alignment } from "../heatmap";
import { change, useLink, useValue } from "../link";
import { BeamTree, NodeCard, pathOf } from "../tree";

export interface Searched { tree: Tree | null; note: string; prediction: Output }

export const SEARCH = {
  beam: { label: "beam", min: 1, max: 64 }, num_best: { label: "outputs", min: 1, max: 64 },
  length_penalty: { label: "length penalty", options: ["none", "average", "gnmt", "power"] }, alpha: { label: "alpha", min: 0, max: 2, step: 0.1 },
  coverage_penalty: { label: "coverage penalty", options: ["none", "gnmt", "summary", "tfa"] }, max_length: { label: "longest output", min: 1, max: 1000 },
  no_repeat_ngram_size: { label: "no repeated n-grams of", min: 0, max: 10 }, repetition_penalty: { label: "repetition penalty", min: 1, max: 5, step: 0.1 },
};

export const lines = (text: string) => text.split("\n").map(line => line.trim()).filter(Boolean);

export function constraintsOf(values: Record<string, string>): Constraints | undefined {
  const constraints: Constraints = {}, { prefix = "", include = "", exclude = "" } = values;
  if (prefix) constraints.prefix = prefix.startsWith("[") ? asList(prefix) : prefix;
  if (lines(include).length) constraints.include = lines(include);
  if (lines(exclude).length) constraints.exclude = lines(exclude);
  return Object.keys(constraints).length ? constraints : undefined;
}

function asList(text: string): string | string[] {
  try { const list = JSON.parse(text); return Array.isArray(list) && list.every(each => typeof each === "string") ? list : text; } catch { return text; }
}

export function inputOf(facts: Facts, values: Record<string, string>): string | string[] {
  const columns = facts.input?.columns ?? [0];
  return columns.length < 2 ? values.input ?? "" : columns.map((_, i) => values[i ? `input${i}` : "input"] ?? "");
}

export function bodyOf(facts: Facts, values: Record<string, string>) {
  const input = inputOf(facts, values);
  if (!(Array.isArray(input) ? input.join("") : input).trim()) return null;
  return { model: facts.name, input, search: { ...(facts.decoding?.method === "beam" ? { num_best: Math.min(3, Number(values.beam ?? facts.decoding.beam)) } : {}), ...searchOf(facts, values, Object.keys(SEARCH)) }, constraints: constraintsOf(values) };
}

export function useSteering() {
  const { values } = useLink();
  return {
    go: (symbols: string[]) => change({ prefix: JSON.stringify(symbols), pick: "" }, true),
    forbid: (text: string) => change({ exclude: [...new Set([...lines(values.exclude ?? ""), text])].join("\n"), pick: "" }, true),
  };
}

export function Inputs({ facts }: { facts: Facts }) {
  const { values } = useLink(), columns = facts.input?.columns ?? [0];
  return <>{columns.map((column, i) => { const name = i ? `input${i}` : "input"; return <Text key={name} rows={2} label={columns.length < 2 ? "input" : `input ${column}`} value={values[name] ?? ""} set={value => change({ [name]: value, pick: "" })} />; })}</>;
}

export function Constrained({ facts }: { facts: Facts }) {
  const [prefix, setPrefix] = useValue("prefix"), [include, setInclude] = useValue("include"), [exclude, setExclude] = useValue("exclude");
  if (!facts.can?.constraints) return null;
  const given = constraintsOf({ prefix })?.prefix, symbols = Array.isArray(given) ? given : null, used = !!(prefix || include || exclude), [open, setOpen] = useState(used);
  return <details open={open || used} onToggle={event => setOpen(event.currentTarget.open)}><summary>Force and forbid</summary><div class="asking">
    {symbols ? <div class="field"><span class="label">the output begins with</span><div class="actions"><Chips plain label="forced beginning; a click keeps what is before a token" chips={symbols.map(text => ({ text }))} choose={i => setPrefix(i ? JSON.stringify(symbols.slice(0, i)) : "", true)} /> <Button onClick={() => setPrefix("", true)}>Let it be free</Button></div></div>
      : <Text label="the output begins with" value={prefix} set={value => setPrefix(value)} />}
    <div class="fields"><Text rows={1} label="contains" hint="a text a line" value={include} set={value => setInclude(value)} />
      <Text rows={1} label="does not contain" hint="a text a line" value={exclude} set={value => setExclude(value)} /></div>
  </div></details>;
}

/** The outputs of a search, of which one is chosen. */
export function Outputs({ outputs, pick, set, name }: { outputs: Output[]; pick: number; set: (pick: number) => void; name: string }) {
  return <div class="scroll"><table class="outputs"><thead><tr><th scope="col">output</th><th scope="col">score</th>{outputs[0].confidence != null && <th scope="col">confidence</th>}<th scope="col">log-probability</th></tr></thead>
    <tbody>{outputs.map((output, i) => <tr class={i === pick ? "here" : ""}><th scope="row"><label><input type="radio" name={name} checked={i === pick} onChange={() => set(i)} /> <span dir="auto">{output.text ? (output.text.trim() || visible(output.text)) : <i>empty</i>}</span></label></th>
      <td>{decimals(output.score)}</td>{outputs[0].confidence != null && <td>{output.confidence == null ? "–" : <Meter value={output.confidence} />}</td>}<td>{decimals(output.log_probability)}</td></tr>)}</tbody></table></div>;
}

export function useSearched(facts: Facts, values: Record<string, string> | null): Asked<Searched> & { outputs: Seen[] } {
  const asked = useAnswer<Searched>("v1/explore/search", values && facts.loaded ? bodyOf(facts, values) : null);
  const outputs = useMemo(() => seenOf(asked.data?.prediction), [asked.data]);
  return { ...asked, outputs };
}

function Panel({ facts, values, kept }: { facts: Facts; values: Record<string, string>; kept: Seen | null }) {
  const asked = useSearched(facts, values), steer = useSteering(), [open, setOpen] = useState<number | null>(null);
  const { outputs, data } = asked, pick = Math.min(Number(values.pick ?? 0), Math.max(0, outputs.length - 1)), seen = outputs[pick], texts = outputs.map(each => each.output);
  if (!seen) return <Status answer={asked} said="Type an input." />;
  const { output, views } = seen, tree = data!.tree, path = tree && tree.returned[pick] !== undefined ? pathOf(tree, tree.returned[pick]) : [];
  const notes = path.length === output.tokens.length ? path.map(node => `${(100 * Math.exp(node.log_probability ?? -99)).toFixed(1)} %`) : undefined;
  const unsplit = (values.unit ?? "symbols") === "symbols" || !views.words;
  return <div class={asked.busy ? "busy panel" : "panel"}>
    <div class="whole"><Status answer={asked} said={`${counted(outputs.length, "output")}; the best: ${texts[0].text || "empty"}`} warnings={output.warnings} /></div>
    <div><Figure title="Outputs" name={facts.name} data={texts}>
      <Outputs outputs={texts} pick={pick} set={each => change({ pick: each ? String(each) : "" })} name={`pick-${facts.name}`} /></Figure>
    {tree ? <Figure title="The search" name={facts.name} data={tree}><BeamTree tree={tree} steer={steer} /></Figure> : data!.note && <p class="faint">{data!.note}</p>}</div>
    <div>{views.symbols && <Figure title="Alignment" name={facts.name} data={views}>
      <Alignment views={views} notes={unsplit ? notes : undefined} choose={unsplit && path.length === output.tokens.length ? step => setOpen(open === step ? null : step) : undefined} />
      {open !== null && tree && path[open] && <NodeCard tree={tree} id={path[open].id} steer={steer} close={() => setOpen(null)} />}</Figure>}
    {kept && <Figure title="What changed" name={facts.name} data={{ before: kept, after: seen }}><Difference before={kept} after={seen} /></Figure>}
    <Nearest facts={facts} values={values} output={output} /></div>
  </div>;
}

function Nearest({ facts, values, output }: { facts: Facts; values: Record<string, string>; output: Output }) {
  const [step, setStep] = useState("1"), [found, set] = useState<{ of: string; items: Near[]; error: string; busy: boolean }>({ of: "", items: [], error: "", busy: false });
  if (!facts.can?.nearest) return null;
  const body = { model: facts.name, input: inputOf(facts, values), output: output.text, step: Math.min(Number(step), output.tokens.length), count: 10 }, of = JSON.stringify(body);
  const ask = () => {
    set({ of, items: [], error: "", busy: true });
    call<{ nearest: Near[] }>("v1/explore/nearest", body).then(({ nearest }) => set({ of, items: nearest, error: "", busy: false }), error => set({ of, items: [], error: error.message, busy: false }));
  };
  return <Figure title="Nearest training items" name={facts.name} data={found.items}>
    <div class="fields"><Choice label="before the token" value={String(body.step)} options={output.tokens.map((text, i) => [String(i + 1), `${i + 1}: ${text}`] as [string, string])} set={setStep} />
      <Button onClick={ask}>Find them</Button></div>
    <p class="status" role="status" aria-live="polite">{found.busy ? "computing the states of training items, up to half a minute …" : found.of === of && found.items.length ? counted(found.items.length, "item") : ""}</p>
    {found.error && <p class="error" role="alert">{found.error}</p>}
    {found.of === of && found.items.length > 0 && <div class="scroll"><table><thead><tr><th scope="col">distance</th><th scope="col">input</th><th scope="col">output</th><th scope="col">place</th></tr></thead>
      <tbody>{found.items.map(item => <tr><td>{decimals(item.distance)}</td><th scope="row" dir="auto">{item.input}</th><td dir="auto">{item.tokens.map((token, i) => <>{i + 1 === item.step ? <b>{token}</b> : token} </>)}</td><td>{item.place}</td></tr>)}</tbody></table></div>}
  </Figure>;
}

export function TextView({ facts, models, load }: ViewProps) {
  const { values } = useLink(), [beside, setBeside] = useValue("beside"), [kept, setKept] = useValue("kept");
  const others = models.filter(each => each.task === facts.task && each.name !== facts.name);
  const second = others.find(each => each.name === beside) ?? null;
  useEffect(() => { if (second && !second.loaded) load(second.name); }, [second?.name]);
  const before = useMemo(() => { try { return kept ? JSON.parse(kept) as Record<string, string> : null; } catch { return null; } }, [kept]);
  const past = useSearched(facts, before);
  const was = before && past.outputs.length ? past.outputs[Math.min(Number(before.pick ?? 0), past.outputs.length - 1)] : null;
  const keep = () => { const { kept: _, beside: __, ...rest } = values; setKept(JSON.stringify(rest), true); };
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()}>
      <Inputs facts={facts} />
      <Constrained facts={facts} />
      <details><summary>Search</summary><Settings facts={facts} names={SEARCH} /></details>
      <div class="actions">
        {before ? <Button onClick={() => setKept("", true)}>End the comparison</Button> : <Button onClick={keep}>Keep this, and see what a change does</Button>}
        {others.length > 0 && <Choice label="beside" value={beside} options={[["", "no other model"], ...others.map(each => [each.name, each.name] as [string, string])]} set={setBeside} />}
      </div>
    </form>
    {second ? <div class="two">{[facts, second].map(each => <div key={each.name}><h2 class="name">{each.name}</h2>{each.loaded ? <Panel facts={each} values={values} kept={each === facts ? was : null} /> : <p class="status" role="status">loading the model …</p>}</div>)}</div>
      : <Panel facts={facts} values={values} kept={was} />}
  </>;
}
