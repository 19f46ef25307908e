// All models that are served, with their cards, and the facts in which they differ.
import { useState } from "preact/hooks";
import type { Facts } from "../api";
import { Check, Choice, counted, Figure, useWidth, Values } from "../parts";
import { hashOf } from "../link";

const KINDS: Record<string, string> = {
  text_to_text: "text to text", image_to_text: "pictures to text", text_to_speech: "speech", documents: "documents",
  language_modelling: "language model", labelling: "labelling", forecasting: "series",
};
export const kindOf = (facts: Facts) => KINDS[facts.task ?? ""] ?? facts.task ?? "not loaded yet";

function flat(value: unknown, name = ""): [string, string][] {
  if (value && typeof value === "object" && !Array.isArray(value)) return Object.entries(value).flatMap(([key, inner]) => flat(inner, name ? `${name}.${key}` : key));
  return [[name, value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(", ") : typeof value === "number" ? number(value) : String(value)]];
}

/** The card's text: headings, lists and paragraphs of Markdown, without markup. */
export function Card({ text }: { text: string }) {
  const parts = text.replace(/<!--.*?-->/gs, "").split(/^```.*\n?/m); // prose and code in turn
  return <div class="markdown">{parts.map((part, i) => i % 2 ? <pre tabIndex={0}>{part.trimEnd()}</pre> : part.trim().split(/\n{2,}/).map(block => {
    const heading = /^#+\s+(.*)/.exec(block);
    if (heading) return <><h3>{heading[1]}</h3>{block.includes("\n") && <p>{block.slice(block.indexOf("\n") + 1)}</p>}</>;
    if (/^\|/.test(block)) {
      const rows = block.split("\n").filter(row => !/^\|[\s:|-]*-[\s:|-]*$/.test(row)).map(row => row.replace(/^\||\|\s*$/g, "").split("|").map(cell => cell.trim()));
      return <div class="scroll" tabIndex={0} role="region" aria-label={`table of ${plain(rows[0].filter(Boolean).join(", ")) || "facts"}`}><table><thead><tr>{rows[0].map(cell => <th scope="col">{plain(cell)}</th>)}</tr></thead><tbody>{rows.slice(1).map(row => <tr>{row.map(cell => <td>{plain(cell)}</td>)}</tr>)}</tbody></table></div>;
    }
    if (/^[-*] /.test(block)) return <ul>{block.split(/\n[-*] /).map(item => <li>{plain(item.replace(/^[-*] /, ""))}</li>)}</ul>;
    return block && <p>{plain(block)}</p>;
  }))}</div>;
}
const plain = (text: string) => text.replaceAll("**", "").replaceAll("`", "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/\\([!-\/:-@[-`{-~])/g, "$1");

/** The facts of a model that are told in tables. */
const told = ({ card: _, input: __, can: ___, validations: ____, ...rest }: Facts) => rest;

const number = (value: number) => Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumSignificantDigits: 4 });

/** A metric of the validations of trainings, over their steps. */
function Curves({ models }: { models: Facts[] }) {
  const [ref, room] = useWidth<HTMLDivElement>(), [chosen, choose] = useState("");
  const runs = models.filter(each => each.validations?.length), metrics = [...new Set(runs.flatMap(each => each.validations!.flatMap(Object.keys)))].filter(name => !["step", "epoch", "seconds"].includes(name));
  const metric = metrics.includes(chosen) ? chosen : metrics[0];
  const lines = runs.map(each => ({ name: each.name, points: each.validations!.filter(entry => Number.isFinite(entry[metric])).map(entry => [entry.step, entry[metric]]) })).filter(line => line.points.length);
  if (!lines.length) return null;
  const all = lines.flatMap(line => line.points), last = Math.max(...all.map(([step]) => step)), low = Math.min(...all.map(([, value]) => value)), high = Math.max(...all.map(([, value]) => value));
  const left = 64, wide = Math.max(160, room - left - 16), tall = 220, x = (step: number) => left + step / (last || 1) * wide, y = (value: number) => tall - 10 - (tall - 20) * (value - low) / (high - low || 1);
  const looks = [["var(--accent)", ""], ["var(--mark)", "7 3"], ["var(--right)", "2 3"], ["var(--wrong)", "9 3 2 3"], ["var(--ink)", "1 2"]];
  return <Figure title="Validations of the trainings" name="models" data={lines}>
    <div class="fields"><Choice label="metric" value={metric} options={metrics} set={choose} /></div>
    <div ref={ref} class="scroll"><svg class="chart" width={left + wide + 16} height={tall + 22} role="img" aria-label={`${metric} over steps`} font-size="12" font-family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif">
      <rect x={left} y="4" width={wide} height={tall - 8} fill="none" stroke="var(--line)" />
      {[low, high].map(value => <text x={left - 6} y={y(value) + 4} text-anchor="end" fill="var(--faint)">{number(value)}</text>)}
      <text x={left} y={tall + 14} fill="var(--faint)">step 0</text><text x={left + wide} y={tall + 14} text-anchor="end" fill="var(--faint)">{last.toLocaleString("en")}</text>
      {lines.map(({ points }, i) => <path d={points.map(([step, value], k) => `${k ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("")} fill="none" stroke={looks[i % 5][0]} stroke-dasharray={looks[i % 5][1]} stroke-width="2" />)}
    </svg></div>
    <p class="foot">{lines.map(({ name, points }, i) => <span><svg width="28" height="8" aria-hidden="true"><line x2="28" y1="4" y2="4" stroke={looks[i % 5][0]} stroke-dasharray={looks[i % 5][1]} stroke-width="2" /></svg> {name}: {number(points[points.length - 1][1])} at last</span>)}</p>
    <Values title="Table of the validations" head={["model", "step", metric]} rows={lines.flatMap(({ name, points }) => points.map(([step, value]) => [name, step, number(value)]))} />
  </Figure>;
}

export function Gallery({ models, load }: { models: Facts[]; load?: (name: string) => void }) {
  const [chosen, set] = useState<string[]>([]);
  const shown = models.filter(each => chosen.includes(each.name) && each.loaded);
  const facts = shown.map(model => new Map(flat(told(model))));
  const names = [...new Set(facts.flatMap(each => [...each.keys()]))].filter(name => name !== "name" && new Set(facts.map(each => each.get(name) ?? "–")).size > 1);
  return <>
    <h1>{counted(models.length, "model")}</h1>
    <ul class="gallery">{models.map(model => <li class="card" key={model.name}>
      <h2><a href={hashOf({ model: model.name, values: {} })}>{model.name}</a></h2>
      <p>{kindOf(model)}{model.parameters !== undefined && `, ${model.parameters.toLocaleString("en")} parameters`}</p>
      <p class="faint">{model.loaded ? <>version {model.version} on {String(model.device)}</> : "It is loaded when it is opened or compared."}</p>
      {model.card && <details><summary>Card</summary><Card text={model.card} /></details>}
      {model.loaded && <details><summary>Facts</summary><dl>{flat((({ settings: _, ...rest }) => rest)(told(model))).map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl></details>}
      {models.length > 1 && <Check label={`compare ${model.name}`} value={chosen.includes(model.name)} set={on => { set(on ? [...chosen, model.name] : chosen.filter(name => name !== model.name)); if (on && !model.loaded) load?.(model.name); }} />}
    </li>)}</ul>
    {shown.length > 1 && <Figure title="Differences" name="models" data={Object.fromEntries(shown.map((each, i) => [each.name, Object.fromEntries(facts[i])]))}>
      <div class="scroll" tabIndex={0} role="region" aria-label="facts that differ"><table><thead><tr><th scope="col">fact</th>{shown.map(each => <th scope="col">{each.name}</th>)}</tr></thead>
        <tbody>{names.map(name => <tr><th scope="row">{name}</th>{facts.map(each => <td>{each.get(name) ?? "–"}</td>)}</tr>)}</tbody></table></div>
      <p class="foot"><span>Metrics are those of the trainings' own held-out data; <code>regard compare</code> evaluates models on the same items.</span></p></Figure>}
    {shown.length > 1 && <Curves models={shown} />}
  </>;
}
