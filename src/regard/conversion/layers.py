"""Names of the weights of a Transformer's layers in other programs."""

from __future__ import annotations

from regard.models.named_weights import Names

READ, INSIDE = ".read.", ".read.values."
"""Where values are projected; with dropout on the weights of attention the read is inside another."""


def layer_names(side: str, count: int, table: Names, *, prefix: str | None = None) -> dict[str, str]:
    """The other program's names of the modules of our layers.

    Args:
        side: `encoder` or `decoder`.
        count: how many layers there are.
        table: the names of the modules of a layer, by ours.
        prefix: what is before the number of a layer there; as here if None.

    >>> layer_names("encoder", 1, {"feed_forward.inner": "linear1"})
    {'encoder.layers.0.feed_forward.inner': 'encoder.layers.0.linear1'}
    """
    found = {}
    for layer in range(count):
        for ours, theirs in table.items():
            name = f"{prefix or f'{side}.layers'}.{layer}.{theirs}"
            found[f"{side}.layers.{layer}.{ours}"] = name
            if READ in ours:
                found[f"{side}.layers.{layer}.{ours.replace(READ, INSIDE)}"] = name
    return found
