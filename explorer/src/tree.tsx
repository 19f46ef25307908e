// The beam as a tree: what the search kept, what it pruned and why. A click shows a node and goes on from there.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Tree, TreeNode } from "./api";
import { widthOf } from "./heatmap";
import { Button, Choice, decimals, percent, Values, visible } from "./parts";
import { useValue } from "./link";

const ROW = 28, GAP = 26, MOST = 400;
const SIGN = { kept: "", pruned: "✕", ended: "⊣", returned: "★" };

/** The nodes from the first token to this one. */
export function pathOf(tree: Tree, id: number): TreeNode[] {
  const path: TreeNode[] = [];
  for (let node: TreeNode | undefined = tree.nodes[id]; node && node.parent !== null; node = tree.nodes[node.parent]) path.unshift(node);
  return path;
}

const probability = (node: TreeNode) => node.log_probability === null ? "impossible" : percent(Math.exp(node.log_probability));
const order = { returned: 0, kept: 1, ended: 2, pruned: 3 };

interface Placed { node: TreeNode; x: number; y: number; width: number }

function layout(tree: Tree, show: string): { placed: Placed[]; width: number; height: number } {
  const best = new Set(tree.returned.flatMap(id => pathOf(tree, id).map(node => node.id))), first = new Set(tree.returned.slice(0, 1).flatMap(id => pathOf(tree, id).map(node => node.id)));
  const seen = (node: TreeNode) => best.has(node.id) || (show === "outputs" ? false : node.state !== "pruned" || show === "all");
  const children = new Map<number, TreeNode[]>();
  for (const node of tree.nodes) if (node.parent !== null && seen(node)) children.set(node.parent, [...(children.get(node.parent) ?? []), node]);
  const rank = (node: TreeNode) => first.has(node.id) ? -2 : best.has(node.id) ? -1 : order[node.state];
  for (const list of children.values()) list.sort((a, b) => rank(a) - rank(b) || (b.log_probability ?? -1e9) - (a.log_probability ?? -1e9));
  const widths: number[] = [], placed: Placed[] = [];
  let row = 0;
  const place = (node: TreeNode): number => {
    const width = Math.min(150, widthOf(visible(node.text)) + widthOf(SIGN[node.state]) + 22);
    widths[node.step] = Math.max(widths[node.step] ?? 0, width);
    const here = { node, x: 0, y: 0, width };
    placed.push(here);
    const below = (children.get(node.id) ?? []).filter(each => best.has(each.id) || placed.length < MOST);
    if (!below.length) { here.y = row++ * ROW; return here.y; }
    const rows = below.map(place);
    here.y = rows[0];
    return here.y;
  };
  for (const node of children.get(0) ?? []) if (best.has(node.id) || placed.length < MOST) place(node);
  const starts = [0, 24];
  for (let step = 1; step < widths.length; step++) starts[step + 1] = starts[step] + (widths[step] ?? 0) + GAP;
  for (const each of placed) each.x = starts[each.node.step];
  return { placed, width: starts[widths.length] ?? 100, height: Math.max(1, row) * ROW };
}

export interface Steering { go: (symbols: string[]) => void; forbid?: (text: string) => void }

/** What a node says in words. */
function told(node: TreeNode, place: number): string {
  const state = { kept: "kept in the beam", pruned: "pruned", ended: "ended", returned: `output ${place + 1}` }[node.state];
  return [`${visible(node.text)}, ${node.is_end ? "the end" : `step ${node.step}`}`, `probability ${probability(node)}`, state, node.why].filter(Boolean).join("; ");
}

export function BeamTree({ tree, steer }: { tree: Tree; steer: Steering }) {
  const [show, setShow] = useValue("tree", "kept"), [focus, setFocus] = useState<number | null>(null), [open, setOpen] = useState<number | null>(null);
  const ref = useRef<HTMLDivElement>(null);
  const { placed, width, height } = useMemo(() => layout(tree, show), [tree, show]);
  const best = useMemo(() => new Set(tree.returned.flatMap(id => pathOf(tree, id).map(node => node.id))), [tree]);
  const by = useMemo(() => new Map(placed.map(each => [each.node.id, each])), [placed]);
  const shown = open !== null && tree.nodes[open] ? open : null, first = focus !== null && by.has(focus) ? focus : placed[0]?.node.id;
  const lit = useMemo(() => new Set(shown === null ? [] : pathOf(tree, shown).map(node => node.id)), [tree, shown]);
  const move = (event: KeyboardEvent) => {
    const here = by.get(first!);
    if (!here) return;
    const column = placed.filter(each => each.node.step === here.node.step).sort((a, b) => a.y - b.y), at = column.indexOf(here);
    const next = { ArrowLeft: here.node.parent ? by.get(here.node.parent) : undefined, ArrowRight: placed.find(each => each.node.parent === here.node.id), ArrowUp: column[at - 1], ArrowDown: column[at + 1] }[event.key];
    if (!next) return;
    event.preventDefault();
    setFocus(next.node.id);
    ref.current!.querySelector<HTMLElement>(`[data-node="${next.node.id}"]`)?.focus();
  };
  const pruned = tree.nodes.filter(node => node.state === "pruned").length;
  return <>
    <div class="fields"><Choice label="show" value={show} options={[["outputs", "the outputs"], ["kept", "what was kept"], ["all", `all, with ${pruned} pruned`]]} set={setShow} />
      <p class="legend">★ an output · ⊣ ended, not returned · ✕ pruned · a click on a token goes on from there</p></div>
    <div class="scroll tall" tabIndex={-1}><div ref={ref} class="tree" role="group" aria-label="the search as a tree; the arrow keys move" style={{ width: width + "px", height: height + "px" }} onKeyDown={move}>
      <svg width={width} height={height} aria-hidden="true">
        <circle cx="5" cy={ROW / 2} r="4" fill="var(--faint)" />
        {placed.map(({ node, x, y }) => {
          const from = node.parent ? by.get(node.parent) : undefined, x0 = from ? from.x + from.width : 9, y0 = (from?.y ?? 0) + ROW / 2, y1 = y + ROW / 2;
          const strong = best.has(node.id) || lit.has(node.id);
          return <path d={`M${x0} ${y0} C${x0 + 14} ${y0} ${x - 16} ${y1} ${x} ${y1}`} fill="none" stroke={lit.has(node.id) ? "var(--mark)" : strong ? "var(--accent)" : "var(--rule)"} stroke-width={strong ? 2 : 1} stroke-dasharray={node.state === "pruned" ? "3 3" : undefined} />;
        })}
      </svg>
      {placed.map(({ node, x, y, width }) => <Button data-node={node.id} tabIndex={node.id === first ? 0 : -1} aria-expanded={open === node.id} title={told(node, tree.returned.indexOf(node.id))} aria-label={told(node, tree.returned.indexOf(node.id))}
        class={`node ${node.state}${best.has(node.id) ? " best" : ""}${lit.has(node.id) ? " lit" : ""}`} style={{ left: x + "px", top: y + 2 + "px", width: width + "px" }}
        onFocus={() => setFocus(node.id)} onClick={() => setOpen(open === node.id ? null : node.id)}><span dir="auto">{visible(node.text)}</span>{SIGN[node.state] && <i aria-hidden="true"> {SIGN[node.state]}</i>}</Button>)}
    </div></div>
    {placed.length >= MOST && <p class="faint">Only the first branches are drawn; the table has all.</p>}
    {shown !== null && <NodeCard tree={tree} id={shown} steer={steer} close={() => setOpen(null)} />}
    <Values title="Table of the search" head={["path", "state", "probability", "total", "score", "why"]}
      rows={tree.nodes.slice(1).map(node => [pathOf(tree, node.id).map(each => visible(each.text)).join(" "), node.state, probability(node), decimals(node.total), decimals(node.score), node.why])} />
  </>;
}

/** The facts of a node, and what may be done from it. */
export function NodeCard({ tree, id, steer, close }: { tree: Tree; id: number; steer: Steering; close: () => void }) {
  const node = tree.nodes[id], path = pathOf(tree, id), symbols = path.map(each => each.text);
  const others = tree.nodes.filter(each => each.parent === node.parent && each.id !== id).sort((a, b) => (b.log_probability ?? -1e9) - (a.log_probability ?? -1e9));
  const place = tree.returned.indexOf(id), ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current!.querySelector("button")!.focus();
    return () => { setTimeout(() => {  // when the card is gone, focus is where it was, or at the output
      if (document.activeElement === document.body) (before?.isConnected ? before : document.querySelector<HTMLElement>(".outputs input:checked"))?.focus();
    }); };
  }, [id]);
  return <div ref={ref} class="card" role="dialog" onKeyDown={event => { if (event.key === "Escape") close(); }} aria-label={`token ${visible(node.text)} of step ${node.step}`}>
    <p class="path" dir="auto">{symbols.slice(0, -1).map(visible).join(" ")} <b>{visible(node.text)}</b></p>
    <dl><div><dt>probability</dt><dd>{probability(node)}</dd></div><div><dt>total</dt><dd>{decimals(node.total)} nats</dd></div>{node.score !== null && <div><dt>score</dt><dd>{decimals(node.score)}</dd></div>}
      <div><dt>state</dt><dd>{node.state === "returned" ? `output ${place + 1}` : node.state}{node.why && `: ${node.why}`}</dd></div></dl>
    <div class="actions">
      {!node.is_end && <Button class="main" onClick={() => { close(); steer.go(symbols); }}>Go on from here</Button>}
      {steer.forbid && !node.is_end && node.text.trim() && <Button onClick={() => { close(); steer.forbid!(node.text); }}>Forbid “{visible(node.text)}”</Button>}
      <Button onClick={close}>Close</Button></div>
    {others.length > 0 && <><h3>instead of it, after the same tokens</h3><div class="actions">{others.slice(0, 8).map(each => each.is_end
      ? <span class="faint">end {probability(each)}</span>
      : <Button onClick={() => { close(); steer.go([...symbols.slice(0, -1), each.text]); }}><span dir="auto">{visible(each.text)}</span> {probability(each)}</Button>)}</div></>}
  </div>;
}
