"""Windows that follow the peak, as others have them."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.windows import ArgmaxWindow

Peer = Literal[
    "chorowski",
    "coqui",
    "deep_voice_3",
    "espnet",
    "mozilla",
    "rayhane_monotonic",
    "rayhane_window",
    "tensorflow_tts",
]
_PEERS: dict[str, dict[str, Any]] = {
    "coqui": {"back": 2, "front": 5, "first": -1},
    "deep_voice_3": {"back": 1, "front": 2},
    "espnet": {"back": 1, "front": 2},
    "mozilla": {"back": 3, "front": 5},
    "rayhane_monotonic": {"back": 0, "front": 6},
    "rayhane_window": {"back": 4, "front": 2},
    "tensorflow_tts": {"back": 2, "front": 4},
}


def argmax_window(like: Peer, *, reach: int | None = None, num_heads: int = 1) -> ArgmaxWindow:
    """The window of a paper or of another implementation.

    | name | p at first | allowed | what p follows |
    |---|---|---|---|
    | `chorowski` | 0 | p - reach … p + reach | the median; `reach` must be given |
    | `coqui` | -1, then 0 | p - 2 … p + 5, so 0 … 4 at first | the maximum |
    | `deep_voice_3`, `espnet` | 0 | p - 1 … p + 2 | the maximum |
    | `mozilla` | 0 | p - 3 … p + 5 | the maximum |
    | `rayhane_monotonic` | 0 | p … p + 6 | the maximum |
    | `rayhane_window` | 0 | p - 4 … p + 2 | the maximum |
    | `tensorflow_tts` | 0 | p - 2 … p + 4 (their win_front=2 is behind p, win_back=4 before it) | the maximum |

    Each row follows its own p; those of coqui and mozilla take that of the first item for the whole batch, so they
    agree for one item. In its first step coqui also raises the energy of position 0 to the highest there is: the p
    that follows from it, 0, is kept here, but the weights of that step are the energies' own. All but `chorowski`
    hold only in synthesis: wrap them in `InEvaluation`.

    >>> window = argmax_window("coqui")
    >>> window.back, window.front, window.first
    (2, 5, -1)
    """
    if like != "chorowski" and like not in _PEERS:
        raise ValueError(f"like={like!r} must be one of {', '.join(sorted([*_PEERS, 'chorowski']))}.")
    if (like == "chorowski") != (reach is not None):
        raise ValueError(f"reach={reach}: 'chorowski' has no width of its own and needs one; the others have theirs.")
    if reach is not None:
        return ArgmaxWindow(back=reach, front=reach, centre="median", num_heads=num_heads)
    window = ArgmaxWindow(**_PEERS[like], num_heads=num_heads)
    if like in ("deep_voice_3", "espnet"):
        window.sources = ("ping2018",)
    return window
