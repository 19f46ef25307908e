"""Classified documents as one HTML file without scripts, which sends no requests."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from regard.errors import printable
from regard.viz.colours import HUES, WARM, are_light, hexadecimal, highlights
from regard.viz.labels import visible
from regard.viz.weighted import Emphasis, WeightedDocument

STEPS = 32
"""Colours of words and of bars."""
STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --faint: #626c78; --line: #dde1e6; --right: #17795e;
  --wrong: #b3402a; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181d; --ink: #e8ebef; --faint: #98a2ae; --line: #333a43; --right: #5cc9a7; --wrong: #ff8f75; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem; max-width: 60rem; background: var(--page);
  color: var(--ink); font: 16px/1.75 system-ui, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 1rem; font-size: 1.35rem; font-weight: 600; overflow-wrap: anywhere; }
section { margin: 0 0 2rem; }
h2 { margin: 0 0 .6rem; font-size: 1rem; font-weight: 400; color: var(--faint); overflow-wrap: anywhere; }
h2 b { font-weight: 600; color: var(--ink); } h2 .right { color: var(--right); } h2 .wrong { color: var(--wrong); }
.sentence { display: grid; grid-template-columns: 2.6rem .7rem 1fr; gap: 0 .7rem; margin: 0 0 .45rem; }
.flat .sentence { display: block; }
.sentence small { text-align: right; color: var(--faint); font-variant-numeric: tabular-nums; font-size: .75rem;
  line-height: 1.75rem; }
.sentence i { border-radius: 3px; border: 1px solid var(--line); }
.sentence p { margin: 0; min-width: 0; overflow-wrap: anywhere; }
p span { padding: .08em .22em; border-radius: 4px; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
p span:hover { outline: 2px solid var(--wrong); }
.nan { background: #be5a5a; color: #fff; }
footer { display: flex; flex-wrap: wrap; gap: .3rem 2rem; color: var(--faint); font-size: .8rem; }
footer span { display: inline-flex; align-items: center; gap: .5rem; }
footer i { width: 7rem; height: .7rem; border: 1px solid var(--line); border-radius: 3px; }
"""


def document_page(
    documents: Sequence[WeightedDocument],
    *,
    title: str | None = None,
    emphasis: Emphasis = "root",
    highest: float = 1.0,
) -> str:
    """The text of the page.

    Args:
        highest: the emphasis of the strongest colour.
    """
    heading = html.escape(printable(title or "Document"))
    is_deep = any(item.weights is not None for item in documents)
    name = {"root": "√sentence weight × word weight", "product": "sentence weight × word weight"}[emphasis]
    scales = [f'<span><i class="cold"></i>0 to {highest:.3g}: {name if is_deep else "word weight"}</span>']
    scales += ['<span><i class="warm"></i>0 to 1: sentence weight</span>'] * is_deep
    sections = "\n".join(_section(item, emphasis, highest) for item in documents)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{heading}</title>
<style>{STYLE}{_colours(dark=False)}
@media (prefers-color-scheme: dark) {{
{_colours(dark=True)} }}
</style>
</head>
<body>
<h1>{heading}</h1>
<main>
{sections}
</main>
<footer>{"".join(scales)}</footer>
</body>
</html>
"""


def _colours(*, dark: bool) -> str:
    """A class for each colour of words (w) and bars (s), and the scales."""
    rules = []
    for letter, hues, scale in (("w", HUES, "cold"), ("s", WARM, "warm")):
        colours = highlights(STEPS + 1, dark=dark, hues=hues)
        light = are_light(colours)
        for i, (colour, is_light) in enumerate(zip(hexadecimal(colours), light, strict=True)):
            rules.append(f".{letter}{i}{{background:{colour};color:{'#111' if is_light else '#fff'}}}")
        rules.append(f".{scale}{{background:linear-gradient(90deg,{','.join(hexadecimal(colours))})}}")
    return "\n".join(rules)


def _section(item: WeightedDocument, emphasis: Emphasis, highest: float) -> str:
    kind = ' class="flat"' if item.weights is None else ""
    return f"<section{kind}>\n{_heading(item)}{_body(item, emphasis, highest)}</section>"


def _heading(item: WeightedDocument) -> str:
    known = item.predicted is not None and item.label is not None
    verdict = "right" if item.predicted == item.label else "wrong"
    parts = []
    if item.predicted is not None:
        mark = f' class="{verdict}"' if known else ""
        score = "" if item.probability is None else f" {item.probability:.2f}"
        parts.append(f"predicted <b{mark}>{html.escape(printable(item.predicted))}</b>{score}")
    if item.label is not None:
        parts.append(f"true <b>{html.escape(printable(item.label))}</b>")
    sign = f' <span class="{verdict}">{"✓" if verdict == "right" else "✗"}</span>' if known else ""
    return f"<h2>{' · '.join(parts)}{sign}</h2>\n" if parts else ""


def _body(item: WeightedDocument, emphasis: Emphasis, highest: float) -> str:
    rows = []
    for s, (words, weights, strengths) in enumerate(
        zip(item.sentences, item.words, item.emphasis(emphasis), strict=True)
    ):
        share = None if item.weights is None else float(item.weights[s])
        beside = "" if share is None else f'<small>{share:.2f}</small><i class="{_step("s", share)}"></i>'
        of_sentence = "" if share is None else f", sentence {share:.4f}"
        spans = " ".join(
            f'<span class="{_step("w", strength / highest)}" title="weight {weight:.4f}{of_sentence}">'
            f"{html.escape(visible(word))}</span>"
            for word, weight, strength in zip(words, weights, strengths, strict=True)
        )
        rows.append(f'<div class="sentence">{beside}<p dir="auto">{spans}</p></div>\n')
    return "".join(rows)


def _step(letter: str, share: float) -> str:
    """The class of a colour, from 0 to 1."""
    return f"{letter}{round(STEPS * min(1.0, max(0.0, share)))}" if np.isfinite(share) else "nan"
