// Labelling: a label over each word with its confidence, and what each word looked at.
import { useState } from "preact/hooks";
import { type ViewProps, Figure, percent, Status, Text, useAnswer, Values, direction } from "../parts";
import type { Matrix, View } from "../api";
import { Alignment } from "../heatmap";
import { change, useLink } from "../link";

interface Labelled { tokens: string[]; labels: string[]; probabilities: number[]; confidences?: number[]; confidence?: number; alignment?: Matrix; warnings: string[]; details?: { heads?: Matrix[] } }

/** The colours of labels: those of a span share one, `O` has none. */
function hue(label: string, names: string[]): number | null {
  const kind = label.replace(/^[BIESLUM][-_]/, "");
  return kind === "O" ? null : (200 + 137.5 * names.indexOf(kind)) % 360;
}

export function LabellingView({ facts }: ViewProps) {
  const { values } = useLink(), input = values.input ?? "", [here, point] = useState<number | null>(null);
  const asked = useAnswer<{ predictions: Labelled[] }>("v1/predict", input.trim() ? { model: facts.name, inputs: [input], confidence: true, details: true } : null);
  const found = asked.data?.predictions[0];
  const names = String(facts.labels ?? "").split(", ").map(label => label.replace(/^[BIESLUM][-_]/, "")).filter((name, i, all) => name !== "O" && all.indexOf(name) === i);
  const views: Record<string, View> | null = found?.alignment ? { symbols: { alignment: found.alignment, tokens: found.tokens.map((token, i) => `${token}/${found.labels[i]}`), source_tokens: found.tokens, alignments: found.details?.heads ? { attention: found.details.heads } : {} } } : null;
  const sure = found?.confidences ?? found?.probabilities ?? [];
  return <>
    <form class="asking" data-unseen onSubmit={event => event.preventDefault()}><Text rows={3} label="sentence" value={input} set={value => change({ input: value })} /></form>
    <Status answer={asked} said={found ? `${found.labels.filter(label => label !== "O").length} of ${found.tokens.length} tokens have a label` : "Type a sentence."} warnings={found?.warnings} />
    {found && <div class={asked.busy ? "busy" : ""}>
      <Figure title="Labels" name={facts.name} data={found}>
        <ol class="labelled" dir={direction(input)} aria-label="tokens with labels">{found.tokens.map((token, i) => {
          const colour = hue(found.labels[i], names);
          return <li onPointerEnter={() => point(i)} onPointerLeave={() => point(null)} class={here === i ? "here" : ""}>
            <span class={colour === null ? "label none" : "label"} style={colour === null ? undefined : { borderColor: `oklch(0.62 0.13 ${colour})` }}>{found.labels[i]}</span><span class="token">{token}</span><small>{percent(sure[i])}</small></li>;
        })}</ol>
        {found.confidence != null && <p>All labels are right with a confidence of {percent(found.confidence)}.</p>}
        <Values title="Table of labels" head={["token", "label", "probability"]} rows={found.tokens.map((token, i) => [token, found.labels[i], percent(sure[i])])} />
      </Figure>
      {views && <Figure title="Attention" name={facts.name} data={views}><Alignment views={views} sides={["tokens", "tokens with labels"]} /></Figure>}
    </div>}
  </>;
}
