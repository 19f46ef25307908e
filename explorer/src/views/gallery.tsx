// All models that are served, with their cards, and the facts in which they differ.
import { useState } from "preact/hooks";
import type { Facts } from "../api";
import { Check, counted, Figure } from "../parts";
import { hashOf } from "../link";

const KINDS: Record<string, string> = {
  text_to_text: "text to text", image_to_text: "pictures to text", text_to_speech: "speech", documents: "documents",
  language_modelling: "language model", labelling: "labelling", forecasting: "series",
};
export const kindOf = (facts: Facts) => KINDS[facts.task ?? ""] ?? facts.task ?? "not loaded yet";

function flat(value: unknown, name = ""): [string, string][] {
  if (value && typeof value === "object" && !Array.isArray(value)) return Object.entries(value).flatMap(([key, inner]) => flat(inner, name ? `${name}.${key}` : key));
  return [[name, value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(", ") : typeof value === "number" ? value.toLocaleString("en") : String(value)]];
}

/** The card's text: headings, lists and paragraphs of Markdown, without markup. */
export function Card({ text }: { text: string }) {
  return <div class="markdown">{text.split(/\n{2,}/).map(block => {
    const heading = /^#+\s+(.*)/.exec(block);
    if (heading) return <><h3>{heading[1]}</h3>{block.includes("\n") && <p>{block.slice(block.indexOf("\n") + 1)}</p>}</>;
    if (/^\|/.test(block)) {
      const rows = block.split("\n").filter(row => !/^\|[\s:|-]+$/.test(row)).map(row => row.replace(/^\||\|\s*$/g, "").split("|").map(cell => cell.trim()));
      return <div class="scroll"><table><thead><tr>{rows[0].map(cell => <th scope="col">{plain(cell)}</th>)}</tr></thead><tbody>{rows.slice(1).map(row => <tr>{row.map(cell => <td>{plain(cell)}</td>)}</tr>)}</tbody></table></div>;
    }
    if (/^[-*] /.test(block)) return <ul>{block.split(/\n[-*] /).map(item => <li>{plain(item.replace(/^[-*] /, ""))}</li>)}</ul>;
    if (block.startsWith("```") || block.startsWith("    ")) return <pre tabIndex={0}>{block.replace(/^```.*\n|\n```$/g, "")}</pre>;
    return block.trim() ? <p>{plain(block)}</p> : null;
  })}</div>;
}
const plain = (text: string) => text.replaceAll("**", "").replaceAll("`", "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");

export function Gallery({ models }: { models: Facts[] }) {
  const [chosen, set] = useState<string[]>([]);
  const shown = models.filter(each => chosen.includes(each.name) && each.loaded);
  const facts = shown.map(({ card: _, input: __, ...rest }) => new Map(flat(rest)));
  const names = [...new Set(facts.flatMap(each => [...each.keys()]))].filter(name => name !== "name" && new Set(facts.map(each => each.get(name) ?? "–")).size > 1);
  return <>
    <h1>{counted(models.length, "model")}</h1>
    <ul class="gallery">{models.map(model => <li class="card" key={model.name}>
      <h2><a href={hashOf({ model: model.name, values: {} })}>{model.name}</a></h2>
      <p>{kindOf(model)}{model.parameters !== undefined && `, ${model.parameters.toLocaleString("en")} parameters`}</p>
      {model.loaded ? <>
        <p class="faint">version {model.version} on {String(model.device)}</p>
        {model.card && <details><summary>Card</summary><Card text={model.card} /></details>}
        <details><summary>Facts</summary><dl>{flat((({ card: _, input: __, can: ___, ...rest }) => rest)(model)).map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl></details>
        {models.length > 1 && <Check label={`compare ${model.name}`} value={chosen.includes(model.name)} set={on => set(on ? [...chosen, model.name] : chosen.filter(name => name !== model.name))} />}
      </> : <p class="faint">It is loaded when it is opened.</p>}
    </li>)}</ul>
    {shown.length > 1 && <Figure title="Differences" name="models" data={Object.fromEntries(shown.map((each, i) => [each.name, Object.fromEntries(facts[i])]))}>
      <div class="scroll"><table><thead><tr><th scope="col">fact</th>{shown.map(each => <th scope="col">{each.name}</th>)}</tr></thead>
        <tbody>{names.map(name => <tr><th scope="row">{name}</th>{facts.map(each => <td>{each.get(name) ?? "–"}</td>)}</tr>)}</tbody></table></div></Figure>}
  </>;
}
