"""Decodes texts by the networks in this folder: `python decode.py --beam 5 < texts.txt`; a JSON object for each text.

It needs numpy and onnxruntime only. Every hypothesis of a beam may end at every step; those that have ended are kept,
and a text is finished when none that goes on can still beat them. A beam of 1 ends where the end is most probable.
Texts of characters, of words between blanks or of texts between separators are split; others are given as symbols with
blanks between them.
"""

from __future__ import annotations

import argparse
import json
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np


class Model:
    """The networks and facts of a folder."""

    def __init__(self, folder: Path | str, threads: int = 1) -> None:
        from onnxruntime import InferenceSession, SessionOptions

        self.facts: dict[str, Any] = json.loads((Path(folder) / "model.json").read_text(encoding="utf-8"))
        run = {"sess_options": SessionOptions(), "providers": ["CPUExecutionProvider"]}
        run["sess_options"].intra_op_num_threads = threads
        self.encoder, self.step = (InferenceSession(Path(folder) / f"{n}.onnx", **run) for n in ("encoder", "step"))
        self.names = [each.name for each in self.step.get_inputs()]
        self.ids = {symbol: i for i, symbol in enumerate(self.facts["source"]["symbols"]) if i > 3}

    def symbols(self, text: str) -> list[str]:
        """The symbols of a text, normalised as in training."""
        side = self.facts["source"]
        change = {"upper": str.upper, "lower": str.lower}.get(side["case"], str)
        for _ in range(4):
            text = change(text if side["unicode"] == "keep" else unicodedata.normalize(side["unicode"], text)).strip()
        if side.get("units") in ("character", "letter"):
            return list(text if side["units"] == "character" else unicodedata.normalize("NFD", text))
        return [part.strip() for part in text.split(side.get("separator")) if part.strip()]

    def decode(self, texts: list[str], beam: int | None = None, batch: int = 64) -> list[list[dict[str, Any]]]:
        """The outputs of each text, best first: text, tokens, score and alignment (T, S)."""
        symbols = [self.symbols(text) for text in texts]
        outputs: list[list[dict[str, Any]]] = [[] for _ in texts]
        order = sorted((i for i, each in enumerate(symbols) if each), key=lambda i: len(symbols[i]))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            for i, found in zip(chosen, self.search([symbols[i] for i in chosen], beam)):
                outputs[i] = [self.output(*each) for each in found]
        return outputs

    def output(self, score: float, ids: tuple[int, ...], rows: tuple[Any, ...]) -> dict[str, Any]:
        """What is said of a hypothesis, in reading order."""
        target, last = self.facts["target"], len(ids) - (ids[-1:] == (self.facts["symbols"]["end"],))
        turn = slice(None, None, -1 if target["reversed"] else 1)
        names = [target["symbols"][n] for n in ids[:last][turn]]
        joint = "" if target.get("units") in ("character", "letter") else target.get("separator") or " "
        alignment = [row.tolist() for row in (*rows[:last][turn], *rows[last:])]
        tokens = [*names, *["</s>"] * (last < len(ids))]
        text = joint.join(names)
        if target.get("units") == "letter":
            text = unicodedata.normalize("NFC", text)
        return {"text": text, "tokens": tokens, "score": float(score), "alignment": alignment}

    def score(self, total: Any, length: int) -> Any:
        """The log-probability of so many symbols, with the length penalty."""
        search = self.facts["search"]
        length, alpha = length + search["counts_begin"], search["alpha"]
        divisor = {"none": 1.0, "average": max(length, 1), "gnmt": ((5 + length) / 6) ** alpha}
        return total / (divisor | {"power": max(length, 1) ** alpha})[search["length_penalty"]]

    def search(self, sources: list[list[str]], beam: int | None = None) -> list[list[Any]]:
        """For the symbols of each source its outputs, best first: (score, ids, rows of the alignment)."""
        search, limits, end = self.facts["search"], self.facts["limits"], self.facts["symbols"]["end"]
        beam, count = search["beam"] if beam is None else beam, np.array([len(source) for source in sources])
        best, begins = 1 if beam == 1 else search["num_best"], int(self.facts["source"]["begins"])
        size = begins + count + self.facts["source"]["ends"]
        if beam < 1:
            raise ValueError(f"A beam has at least 1 hypothesis, not {beam}.")
        if count.max() > limits["source"]:
            raise ValueError(f"A text has {count.max()} symbols; the model reads {limits['source']}.")
        most = np.maximum((count * limits["max_length_ratio"] + limits["extra"]).astype(int), 1)
        most = limits["max_length"] or np.minimum(most, limits["cap"] or most)
        most = np.minimum(most, limits["output"] or most) + 0 * size
        least = np.ceil(count * limits["min_length_ratio"] - 1e-9).astype(int)
        least = np.minimum(np.maximum(least, limits["min_length"]), most)
        padded = np.full((len(sources), max(size.max(), 3)), end)  # some attentions need three; padding changes nothing
        for row, source in zip(padded, sources):
            row[:begins] = 1
            row[begins : begins + len(source)] = [self.ids.get(symbol, 3) for symbol in source]
        tensors = self.encoder.run(None, {"source": padded, "lengths": size})
        memory, state = tensors[: self.facts["memory"]], tensors[self.facts["memory"] :]
        rows, totals = np.arange(len(sources)), np.zeros((len(sources), 1))
        tokens, parents = np.full_like(totals, self.facts["symbols"]["begin"], int), np.zeros_like(totals, int)
        paths: list[list[Any]] = [[((), ())] for _ in sources]  # ids and rows of the alignment of every hypothesis
        done: list[list[Any]] = [[] for _ in sources]
        for length in range(1, int(most.max()) + 2):
            scores, *state = self.step.run(None, dict(zip(self.names, [tokens, parents, *memory, *state])))
            weights = state.pop(0) if self.facts["alignment"] else np.zeros((*tokens.shape, 0))
            before, grown, old = totals, totals[..., None] + scores.astype(float), paths
            ends = grown[..., end].copy()
            grown[..., end] = -np.inf
            flat = grown.reshape(len(rows), -1)
            top = np.sort(np.argpartition(-flat, min(beam, flat.shape[1]) - 1)[:, :beam])
            top = np.take_along_axis(top, np.argsort(-np.take_along_axis(flat, top, 1), kind="stable"), 1)
            totals, parents, tokens = np.take_along_axis(flat, top, 1), *np.divmod(top, scores.shape[-1])
            stays: list[int] = []
            paths = []
            for i, b in enumerate(rows):
                said = [(ids, (*seen, weights[i, k, : size[b]])) for k, (ids, seen) in enumerate(old[i])]
                for total, (ids, seen) in zip(ends[i], said):
                    if length > least[b] and total > -np.inf and (beam > 1 or total >= totals[i, 0]):
                        done[b].append((self.score(total, length), (*ids, end), seen))
                done[b] = sorted(done[b], key=lambda each: -each[0])[:best]
                bound = max(self.score(totals[i, 0], n + 1) for n in (length, most[b]))
                if len(done[b]) == best and (beam == 1 or bound <= done[b][-1][0]):
                    continue
                if length > most[b]:  # what has not ended is cut
                    cut = dict.fromkeys(parents[i, : best - len(done[b])])
                    done[b] += [(self.score(before[i, k], most[b]), *old[i][k]) for k in cut]
                else:
                    stays.append(i)
                    paths.append([((*said[k][0], token), said[k][1]) for k, token in zip(parents[i], tokens[i])])
            if not stays:
                break
            if len(stays) < len(rows):
                rows, totals, tokens, parents, *state = (x[stays] for x in (rows, totals, tokens, parents, *state))
                memory = [x[stays] for x in memory]
        return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Decodes the texts of standard input, a line each.")
    parser.add_argument("--beam", type=int, help="hypotheses of a text; 1: greedy; default: the model's")
    parser.add_argument("--threads", type=int, default=1, help="of onnxruntime; 0: one for each core")
    given, texts = parser.parse_args(), sys.stdin.read().splitlines()
    for text, found in zip(texts, Model(Path(__file__).parent, given.threads).decode(texts, given.beam)):
        print(json.dumps({"source": text, "outputs": found}, ensure_ascii=False))
