"""A GRU whose reset gate multiplies the state before the product, as in Cho's paper and TensorFlow 1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence


class ResetBeforeGRU(nn.Module):
    """A layer of gated recurrent units with the reset gate before the product, with the interface of `nn.GRU`.

    r = σ(W_r x + U_r h + b_r),  z = σ(W_z x + U_z h + b_z),  n = tanh(W_n x + U_n (r h) + b_n),  h' = (1 - z) n + z h.

    torch's GRU (and cuDNN's) has r (U_n h + c) in place of U_n (r h), so their weights cannot be exchanged. Gates are
    in torch's order r, z, n; there is one bias, as that of the state would only add to it.

    Args:
        input_size: F.
        hidden_size: D.
        batch_first: inputs are (B, T, F); the only layout.
        bidirectional: outputs have 2·D features.

    Cost: a loop over the steps with two products each, in torch.

    Source: Cho et al. 2014 (arXiv 1406.1078), equations 5 to 8, whose z is our 1 - z; `GRUCell` of TensorFlow 1.

    >>> layer = ResetBeforeGRU(3, 4)
    >>> outputs, last = layer(torch.zeros(2, 5, 3))
    >>> outputs.shape, last.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, batch_first: bool = True, bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.batch_first = batch_first
        self.bidirectional = bidirectional
        self.num_layers = 1
        for suffix in self.suffixes:
            self.register_parameter(f"weight_ih_l0{suffix}", nn.Parameter(torch.empty(3 * hidden_size, input_size)))
            self.register_parameter(f"weight_hh_l0{suffix}", nn.Parameter(torch.empty(3 * hidden_size, hidden_size)))
            self.register_parameter(f"bias_l0{suffix}", nn.Parameter(torch.empty(3 * hidden_size)))
        self.reset_parameters()

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of the names of each direction's weights."""
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        """Weights Glorot-uniform by gate; biases of the gates one and of the candidate zero, as in TensorFlow 1."""
        for name, parameter in self.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
                nn.init.ones_(parameter[: 2 * self.hidden_size])
            else:
                for gate in parameter.split(self.hidden_size):
                    nn.init.xavier_uniform_(gate)

    def forward(
        self, inputs: Tensor | PackedSequence, first: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Outputs of all steps, packed if the inputs are, and the last states (1 or 2, B, D).

        Args:
            inputs: (B, T, F), or a packed sequence of F features.
            first: (1 or 2, B, D), the state before the first step; zeros if None.
        """
        packed: Any = inputs if isinstance(inputs, PackedSequence) else None
        if packed is not None:
            data, sizes = packed.data, packed.batch_sizes.tolist()
        else:
            assert isinstance(inputs, Tensor)
            data, sizes = inputs.transpose(0, 1).flatten(0, 1), [inputs.shape[0]] * inputs.shape[1]
        rows = sizes[0] if sizes else 0
        if first is None:
            first = data.new_zeros(len(self.suffixes), rows, self.hidden_size)
        elif packed is not None and packed.sorted_indices is not None:
            first = first.index_select(1, packed.sorted_indices)
        results = [
            self._run(data, sizes, first[number], suffix, backward=number == 1)
            for number, suffix in enumerate(self.suffixes)
        ]
        outputs = torch.cat([output for output, _ in results], -1)
        last = torch.stack([state for _, state in results])
        if packed is None:
            return outputs.unflatten(0, (len(sizes), rows)).transpose(0, 1), last
        if packed.unsorted_indices is not None:
            last = last.index_select(1, packed.unsorted_indices)
        return packed._replace(data=outputs), last

    def _run(
        self, data: Tensor, sizes: list[int], state: Tensor, suffix: str, *, backward: bool
    ) -> tuple[Tensor, Tensor]:
        """One direction over packed data: outputs (N, D) and the last state of every row."""
        weights = [getattr(self, f"{kind}_l0{suffix}") for kind in ("weight_ih", "weight_hh", "bias")]
        gates = linear(data, weights[0], weights[2]).split(sizes)
        steps = range(len(sizes) - 1, -1, -1) if backward else range(len(sizes))
        outputs: list[Tensor] = [data] * len(sizes)
        for t in steps:
            outputs[t] = reset_before(gates[t], state[: sizes[t]], weights[1])
            state = torch.cat([outputs[t], state[sizes[t] :]])
        return torch.cat(outputs) if sizes else data.new_zeros(0, self.hidden_size), state


def reset_before(x: Tensor, h: Tensor, weight: Tensor) -> Tensor:
    """The new state (R, D) from the input's gates x (R, 3·D) with their bias, h (R, D) and U (3·D, D)."""
    size = h.shape[-1]
    r, z = (x[:, : 2 * size] + linear(h, weight[: 2 * size])).sigmoid().chunk(2, -1)
    n = (x[:, 2 * size :] + linear(r * h, weight[2 * size :])).tanh()
    return (1 - z) * n + z * h
