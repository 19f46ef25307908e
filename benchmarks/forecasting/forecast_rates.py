"""Windows a second of training, beside the plainest torch program for the same model, turn by turn in one process.

    python benchmarks/forecasting/forecast_rates.py ETTh1.csv --horizons 24 168

The program is what one would write without a library: rows in one tensor, windows by indexing, `nn.GRU` for encoder and
decoder, additive attention by its formula, `nn.Dropout`, the linear path, AdamW with clipping. A turn is some optimiser
steps on the same batches. Before the turns, both give the same loss from the same weights.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from regard.config import from_preset
from regard.tasks import TASKS
from regard.training.accumulation import LocalBatch
from regard.training.step import Stepper

TOLERANCE = 1e-5


class Plain(nn.Module):
    """The same network in plain torch: channel by channel, with a linear path."""

    def __init__(self, known: int, embedding: int, size: int, attention: int, dropout: float, linear: Tensor) -> None:
        super().__init__()
        self.read, self.say = nn.Linear(2 + known, embedding), nn.Linear(2 + known, embedding)
        self.encoder = nn.GRU(embedding, size, batch_first=True)
        self.decoder = nn.GRU(embedding, size, batch_first=True)
        self.bridge = nn.Linear(size, size)
        self.query, self.key = nn.Linear(size, attention, bias=False), nn.Linear(size, attention, bias=False)
        self.v = nn.Parameter(torch.empty(1, attention))
        self.readout, self.head = nn.Linear(2 * size, size), nn.Linear(size, 1)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("linear", linear)

    def forward(self, history: Tensor, truth: Tensor, past_known: Tensor, known: Tensor) -> Tensor:
        """Teacher-forced forecasts (B, F, T) of truth (B, T, F)."""
        count, steps, targets = history.shape
        base = torch.einsum("bsf,fst->bft", history, self.linear[:, :-1]) + self.linear[:, -1]
        base = base.reshape(-1, truth.shape[1], 1)
        history = history.transpose(1, 2).reshape(-1, steps, 1)
        truth = truth.transpose(1, 2).reshape(-1, truth.shape[1], 1)
        past_known, known = (x.repeat_interleave(targets, 0) for x in (past_known, known))
        inputs = torch.cat([history, torch.zeros_like(history), past_known], -1)
        memory, last = self.encoder(self.dropout(self.read(inputs)))
        previous = torch.cat([history[:, -1:], truth[:, :-1]], 1)
        said = self.dropout(self.say(torch.cat([base, previous, known], -1)))
        states, _ = self.decoder(said, torch.tanh(self.bridge(last)))
        energies = torch.tanh(self.query(states)[:, :, None] + self.key(memory)[:, None]) @ self.v[0]
        context = energies.softmax(-1) @ memory
        output = torch.tanh(self.readout(torch.cat([states, context], -1)))
        return (base + self.head(self.dropout(output)))[..., 0].unflatten(0, (count, targets))


NAMES = {
    "read": "encoder.embedding.projection", "encoder": "encoder.stack.layers.0",
    "say": "decoder.core.embedding.projection", "decoder": "decoder.core.stack.layers.0",
    "bridge": "decoder.core.bridge.maps.0", "query": "decoder.core.attention.score.query_projection",
    "key": "decoder.core.attention.score.key_projection", "v": "decoder.core.attention.score.v",
    "readout": "decoder.core.readout", "head": "decoder.core.head.projection", "linear": "linear.weights",
}  # fmt: skip
"""Our names of the plain program's weights."""


def copied(plain: Plain, module: nn.Module) -> None:
    """Gives the plain program our weights."""
    ours = module.state_dict()
    weights = {}
    for name in plain.state_dict():
        first, dot, rest = name.partition(".")
        weights[name] = ours[f"{NAMES[first]}{dot}{rest}"]
    plain.load_state_dict(weights)


def main() -> None:
    """Prints a row for each horizon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--horizons", type=int, nargs="+", default=[24, 168])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| horizon | windows of a batch | plain torch, windows/s | regard, windows/s | times |")
    print("|---:|---:|---:|---:|---:|")
    for horizon in options.horizons:
        settings = [f"data.train={options.file}", f"data.horizon={horizon}", "training.device=cpu"]
        config: Any = from_preset("forecasting", settings).config
        task = TASKS["forecasting"]
        material = task.read(config)
        config = task.resolve(config, material, None).config
        torch.manual_seed(1)
        model = task.build(config, material, name="rates")
        trainee: Any = task.trainee(model, material)
        nn.init.normal_(model.module.decoder.core.head.projection.weight)
        decoder, windows = config.model.decoder, trainee.windows
        plain = Plain(
            windows.num_known, decoder.embedding_size, decoder.size, config.model.attention.options["size"],
            decoder.dropout, model.module.linear.weights,
        )  # fmt: skip
        copied(plain, model.module)
        rows, known = torch.from_numpy(windows._targets).float(), torch.from_numpy(windows._known).float()
        past, ahead = torch.arange(-config.data.history, 0), torch.arange(horizon)
        starts = torch.from_numpy(windows.places[:, 1])

        def plain_loss(
            description: Any, plain: Plain = plain, starts: Tensor = starts, past: Tensor = past,
            ahead: Tensor = ahead, rows: Tensor = rows, known: Tensor = known,
        ) -> Tensor:  # fmt: skip
            at = starts[torch.from_numpy(description)][:, None]
            history, truth = rows[at + past], rows[at + ahead]
            centre = history[:, -1:]
            history, truth = history - centre, truth - centre
            values = plain(history, truth, known[at + past], known[at + ahead])
            return mse_loss(values, truth.transpose(1, 2))

        optimizer = torch.optim.AdamW(plain.parameters(), lr=config.training.learning_rate, weight_decay=0.0)
        stepper, generator = Stepper(trainee, config.training, torch.device("cpu")), torch.Generator()
        order = trainee.descriptions(0)[: options.steps]
        plain.eval(), model.module.eval()
        with torch.no_grad():
            ours = trainee.loss(trainee.batch(order[0]), step=0, generator=generator)
            apart = abs(float(ours.total) / int(ours.count) - float(plain_loss(order[0])))
        assert apart < TOLERANCE * float(ours.total) / int(ours.count), f"the losses differ by {apart}"
        plain.train(), model.module.train()

        def plain_turn(
            order: Any = order, loss_of: Any = plain_loss, plain: Plain = plain, by: Any = optimizer
        ) -> None:
            for description in order:
                by.zero_grad(set_to_none=True)
                loss_of(description).backward()
                nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
                by.step()

        def our_turn(order: Any = order, trainee: Any = trainee, stepper: Any = stepper, by: Any = generator) -> None:
            for number, description in enumerate(order):
                batch = trainee.batch(description)
                stepper([(LocalBatch(description), batch)], step=number, learning_rate=0.002, generator=by)

        rates: dict[str, list[float]] = {"plain": [], "ours": []}
        for turn in range(options.turns + 1):
            for name, take in (("plain", plain_turn), ("ours", our_turn)):
                begun = time.process_time()
                take()
                if turn:  # the first loads kernels
                    rates[name].append(sum(map(len, order)) / (time.process_time() - begun))
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["ours"], rates["plain"], strict=True))
        medians = {name: statistics.median(values) for name, values in rates.items()}
        print(
            f"| {horizon} | {len(order[0])} | {medians['plain']:,.0f} | {medians['ours']:,.0f} | {ratio:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    np.set_printoptions(precision=4)
    main()
