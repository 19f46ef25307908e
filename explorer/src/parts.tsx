// The parts of which views are made.
import type { ButtonHTMLAttributes, ComponentChildren, TargetedInputEvent } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { call, type Facts, Refused, streamed } from "./api";
import { behind, css, type Palette, shade, usePalette } from "./colours";
import { useValue } from "./link";
import { save, savePicture } from "./picture";

export interface ViewProps { facts: Facts; models: Facts[]; /** Loads a model that is not loaded yet. */ load: (name: string) => void }

export interface Answer<T> { data: T | null; error: string; field: string | null; busy: boolean; /** The body that `data` answers. */ of: string; /** Of an answer that is streamed: what of its text has come. */ partial?: string }

/** The answer to a body, asked for once it has rested for a moment; null asks for nothing. The last answer stays until the next one comes. A body with `stream` is answered by its prediction. */
export function useAnswer<T>(path: string, body: { stream?: boolean; [field: string]: unknown } | null, rest = 350): Answer<T> {
  const key = body === null ? "" : JSON.stringify(body);
  const [state, set] = useState<Answer<T>>({ data: null, error: "", field: null, busy: key !== "", of: "" });
  useEffect(() => {
    if (!key) { set({ data: null, error: "", field: null, busy: false, of: "" }); return; }
    const stop = new AbortController();
    set(last => ({ ...last, busy: true, partial: "" }));
    const timer = setTimeout(() => {
      const asked = JSON.parse(key), tell = (partial: string) => set(last => ({ ...last, partial }));
      (asked.stream ? streamed<T>(path, asked, stop.signal, tell) : call<T>(path, asked, stop.signal)).then(
        data => set({ data, error: "", field: null, busy: false, of: key }),
        error => { if (!stop.signal.aborted) set(last => ({ ...last, error: String(error.message), field: error instanceof Refused ? error.field : null, busy: false })); });
    }, rest);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [path, key]);
  return state;
}

/** The width of an element in pixels, followed while it changes. */
export function useWidth<T extends Element>(): [(element: T | null) => void, number] {
  const [element, ref] = useState<T | null>(null), [width, set] = useState(600);
  useEffect(() => {
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [ref, width];
}

export const percent = (x: number) => x >= 0.9995 && x < 1 ? "> 99.9 %" : (100 * x).toFixed(x < 0.0995 ? 2 : 1) + " %";
export const decimals = (x: number | null | undefined, count = 2) => x === null || x === undefined || !Number.isFinite(x) ? "–" : x.toFixed(count).replace("-", "−");
export const counted = (count: number, one: string, several = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

/** Spaces and line ends, which would not be seen. */
export const visible = (symbol: string) => symbol === "" ? "∅" : symbol.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");

const RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/, LETTER = /\p{L}/u;
/** The direction of a text, that of its first letter. */
export const direction = (text: string) => RIGHT.test(LETTER.exec(text)?.[0] ?? "") ? "rtl" : "ltr";

export function Field({ label, hint, children }: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return <div class="field"><label for={id}>{label}</label>{children(id)}{hint && <small>{hint}</small>}</div>;
}

export function Text({ label, value, set, hint, rows, placeholder, onEnter }: { label: string; value: string; set: (value: string) => void; hint?: string; rows?: number; placeholder?: string; onEnter?: () => void }) {
  const common = {
    value, placeholder, dir: "auto" as const, spellcheck: false, autocomplete: "off",
    onInput: (event: TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>) => set(event.currentTarget.value),
    onKeyDown: (event: KeyboardEvent) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey || !rows)) onEnter?.(); },
  };
  return <Field label={label} hint={hint}>{id => rows ? <textarea id={id} rows={rows} {...common} /> : <input id={id} type="text" {...common} />}</Field>;
}

export function Numeric({ label, value, set, min, max, step = 1, hint }: { label: string; value: string; set: (value: string) => void; min: number; max: number; step?: number; hint?: string }) {
  return <Field label={label} hint={hint}>{id => <input id={id} type="number" {...{ value, min, max, step }} onInput={event => { if (event.currentTarget.validity.valid) set(event.currentTarget.value); }} />}</Field>;
}

export function Choice({ label, value, options, set }: { label: string; value: string; options: (string | [string, string])[]; set: (value: string) => void }) {
  return <Field label={label}>{id => <select id={id} value={value} onChange={event => set(event.currentTarget.value)}>
    {options.map(option => { const [name, shown] = typeof option === "string" ? [option, option] : option; return <option value={name} selected={name === value}>{shown}</option>; })}
  </select>}</Field>;
}

export function Check({ label, value, set }: { label: string; value: boolean; set: (value: boolean) => void }) {
  return <label class="check"><input type="checkbox" checked={value} onChange={event => set(event.currentTarget.checked)} /> {label}</label>;
}

export function Button({ children, ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { children: ComponentChildren }) {
  return <button type="button" {...rest}>{children}</button>;
}

/** What a search, an error or a warning says, read aloud. */
export function Status({ answer, said, warnings = [] }: { answer: Answer<unknown>; said: string; warnings?: string[] }) {
  return <>
    <p class="status" role="status" aria-live="polite">{answer.busy ? "computing …" : answer.error ? "" : said}</p>
    {answer.error && !answer.busy && <p class="error" role="alert">{answer.error}</p>}
    {[...new Set(warnings)].map(warning => <p class="warning">{warning}</p>)}
  </>;
}

/** A part of a view: a heading, and what is seen of it as files. */
export function Figure({ title, name, data, children, tools }: { title: string; name: string; data: unknown; children: ComponentChildren; tools?: ComponentChildren }) {
  const ref = useRef<HTMLElement>(null), id = useId();
  const file = (kind: string) => `${name}-${title.toLowerCase().replace(/\W+/g, "-")}${kind}`;
  return <section ref={ref} class="figure" aria-labelledby={id}>
    <header><h2 id={id}>{title}</h2>{tools}
      <span class="files" data-unseen role="group" aria-label={`save ${title}`}>
        {(["png", "svg"] as const).map(kind => <Button aria-label={`save ${title} as ${kind.toUpperCase()}`} onClick={() => savePicture(ref.current!, file(""), kind)}>{kind.toUpperCase()}</Button>)}
        <Button aria-label={`save ${title} as JSON`} onClick={() => save(file(".json"), new Blob([JSON.stringify({ link: location.href, data }, null, 1)], { type: "application/json" }))}>JSON</Button>
      </span></header>
    {children}
  </section>;
}

/** A table of the values of a picture, for those who do not see it. */
export function Values({ title, head, rows }: { title: string; head: string[]; rows: (string | number)[][] }) {
  const [open, set] = useState(false);
  return <details data-unseen onToggle={event => set(event.currentTarget.open)}><summary>{title}</summary>
    {open && <div class="scroll" tabIndex={0} role="region" aria-label={title}><table><thead><tr>{head.map(text => <th scope="col" dir="auto">{text}</th>)}</tr></thead>
      <tbody>{rows.slice(0, 500).map(row => <tr>{row.map((cell, i) => i ? <td dir="auto">{cell}</td> : <th scope="row" dir="auto">{cell}</th>)}</tr>)}</tbody></table></div>}
  </details>;
}

/** A probability as a bar with its number. */
export function Meter({ value, label }: { value: number; label?: string }) {
  return <span class="meter" title={label}><svg width="60" height="8" aria-hidden="true"><rect width="60" height="8" rx="2" fill="var(--line)" /><rect width={Math.max(1, 60 * value)} height="8" rx="2" fill="var(--accent)" /></svg> {percent(value)}</span>;
}

export function Scale({ lowest = 0, highest, palette, table, name = "weight" }: { lowest?: number; highest: number; palette: Palette; table?: Palette["weights"]; name?: string }) {
  const stops = Array.from({ length: 9 }, (_, i) => shade(table ?? palette.weights, i / 8));
  const id = useId().replace(/\W/g, ""), digits = highest < 0.05 ? 4 : 2;
  return <span class="scale">{`${lowest ? decimals(lowest, digits) : 0} `}<svg width="90" height="10" aria-hidden="true"><defs><linearGradient id={id}>{stops.map((stop, i) => <stop offset={i / 8} stop-color={css(stop)} />)}</linearGradient></defs><rect width="90" height="10" rx="2" fill={`url(#${id})`} stroke="var(--line)" /></svg>{` ${decimals(highest, digits)} ${name}`}</span>;
}

export interface Chip { text: string; weight?: number; note?: string; struck?: boolean; faint?: boolean }

/** Tokens in a line as buttons; the arrow keys move along it. */
export function Chips({ label, chips, here, point, choose, popup, table, plain }: { label: string; chips: Chip[]; here?: number | null; point?: (index: number | null) => void; choose?: (index: number) => void; popup?: boolean; table?: Palette["weights"]; plain?: boolean }) {
  const palette = usePalette(), ref = useRef<HTMLDivElement>(null), [focus, setFocus] = useState(0);
  const way = direction(chips.map(chip => chip.text).join(" "));
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, Home: -chips.length, End: chips.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = Math.min(chips.length - 1, Math.max(0, focus + (way === "rtl" && event.key.startsWith("Arrow") ? -step : step)));
    setFocus(next);
    (ref.current!.children[next] as HTMLElement).focus();
  };
  return <div ref={ref} class={plain ? "chips plain" : "chips"} role="group" aria-label={label} dir={way} onKeyDown={move} onPointerLeave={() => point?.(null)}>
    {chips.map((chip, i) => <Button tabIndex={i === Math.min(focus, chips.length - 1) ? 0 : -1} aria-haspopup={popup ? "true" : undefined} aria-pressed={choose && !popup ? !!chip.struck : undefined}
      class={[here === i && "here", chip.struck && "struck", chip.faint && "faint"].filter(Boolean).join(" ")} title={chip.note}
      style={chip.weight === undefined ? undefined : behind(table ?? palette.weights, chip.weight)}
      onPointerEnter={() => point?.(i)} onFocus={() => { setFocus(i); point?.(i); }} onBlur={() => point?.(null)} onClick={() => choose?.(i)}><span dir="auto">{visible(chip.text)}</span>{chip.note && <span class="said"> {chip.note}</span>}</Button>)}
  </div>;
}

/** The settings of a search that requests may choose. */
export function Settings({ facts, names }: { facts: Facts; names: Record<string, { label: string; min: number; max: number; step?: number } | { label: string; options: string[] }> }) {
  const has = Object.entries(names).filter(([name]) => name in (facts.decoding ?? {}));
  return <div class="fields">{has.map(([name, kind]) => <Setting key={name} {...{ name, kind }} own={String(facts.decoding![name] ?? "")} />)}</div>;
}

function Setting({ name, kind, own }: { name: string; kind: any; own: string }) {
  const [value, set] = useValue(name, own);
  return kind.options ? <Choice label={kind.label} value={value} options={kind.options} set={set} />
    : <Numeric label={kind.label} value={value} set={set} min={kind.min} max={kind.max} step={kind.step} />;
}

/** The settings of a link that differ from the model's own. */
export function searchOf(facts: Facts, values: Record<string, string>, names: Iterable<string>): Record<string, unknown> {
  const search: Record<string, unknown> = {};
  for (const name of names)
    if (values[name] !== undefined && values[name] !== "" && name in (facts.decoding ?? {})) search[name] = Number.isNaN(Number(values[name])) ? values[name] : Number(values[name]);
  return search;
}
