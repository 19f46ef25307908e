"""Windows around the peak of the last step's weights, as in papers and other programs."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.windows import ArgmaxWindow

WindowName = Literal[
    "chorowski",
    "coqui",
    "deep_voice_3",
    "espnet",
    "mozilla",
    "rayhane_monotonic",
    "rayhane_window",
    "tensorflow_tts",
]
_WINDOWS: dict[str, dict[str, Any]] = {
    "coqui": {"back": 2, "front": 5, "first": -1},
    "deep_voice_3": {"back": 1, "front": 2},
    "espnet": {"back": 1, "front": 2},
    "mozilla": {"back": 3, "front": 5},
    "rayhane_monotonic": {"back": 0, "front": 6},
    "rayhane_window": {"back": 4, "front": 2},
    "tensorflow_tts": {"back": 2, "front": 4},
}


def argmax_window(like: WindowName, *, reach: int | None = None, num_heads: int = 1) -> ArgmaxWindow:
    """The window of a paper or of another implementation.

    | name | p at first | allowed | p is |
    |---|---|---|---|
    | `chorowski` | 0 | p - reach … p + reach | the median; `reach` must be given |
    | `coqui` | -1, then 0 | p - 2 … p + 5, so 0 … 4 at first | the maximum |
    | `deep_voice_3`, `espnet` | 0 | p - 1 … p + 2 | the maximum |
    | `mozilla` | 0 | p - 3 … p + 5 | the maximum |
    | `rayhane_monotonic` | 0 | p … p + 6 | the maximum |
    | `rayhane_window` | 0 | p - 4 … p + 2 | the maximum |
    | `tensorflow_tts` | 0 | p - 2 … p + 4 (their win_front=2 is before p, their win_back=4 after it) | the maximum |

    Each row has its own p. Coqui's and Mozilla's code use the p of the first item for the whole batch, so they agree
    with ours for a batch of one. In its first step Coqui's code also raises the energy of position 0 to the maximum;
    here p becomes 0 likewise, but the weights of that step are not changed. All but `chorowski` apply only in
    synthesis: wrap them in `InEvaluation`.

    >>> window = argmax_window("coqui")
    >>> window.back, window.front, window.first
    (2, 5, -1)
    """
    if like != "chorowski" and like not in _WINDOWS:
        raise ValueError(f"like={like!r} must be one of {', '.join(sorted([*_WINDOWS, 'chorowski']))}.")
    if (like == "chorowski") != (reach is not None):
        raise ValueError(f"reach={reach}: 'chorowski' needs a reach; the others have a fixed one.")
    if reach is not None:
        return ArgmaxWindow(back=reach, front=reach, centre="median", num_heads=num_heads)
    window = ArgmaxWindow(**_WINDOWS[like], num_heads=num_heads)
    if like in ("deep_voice_3", "espnet"):
        window.sources = ("ping2018",)
    return window
