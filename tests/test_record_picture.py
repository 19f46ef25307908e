"""Pictures of what was recorded: which attentions are layers of one picture, and whose tokens are at its sides."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from torch import nn

from regard import RegardError, ShapeError, load_alignment, record_attention
from regard.record import Seen

SOURCE, TARGET = list("abcdefg"), list("xyz")


@pytest.fixture(scope="module")
def seen():
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 2, 2, 16, batch_first=True).eval()
    padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
    mask = torch.ones(4, 4).triu(1).bool()
    options = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding, "tgt_mask": mask}
    with record_attention(model) as recorded, torch.inference_mode():
        model(torch.randn(2, 7, 8), torch.randn(2, 4, 8), **options)
    return recorded


def items(seen, path, *tokens, **options):
    seen.plot(path / "a.png", *tokens, data="npz", **options)
    return load_alignment(path / "a.npz")


def test_kinds_of_attention_are_pictures_with_their_layers_and_tokens(seen, tmp_path):
    encoder, decoder, cross = items(seen, tmp_path, SOURCE, [*TARGET, "</s>"])
    assert [one.text for one in (encoder, decoder, cross)] == [
        "encoder.layers.*.self_attn",
        "decoder.layers.*.self_attn",
        "decoder.layers.*.multihead_attn",
    ]
    assert encoder.layers == ("encoder.layers.0.self_attn", "encoder.layers.1.self_attn")
    target = (*TARGET, "</s>")
    for one, sources, targets in (
        (encoder, tuple(SOURCE), tuple(SOURCE)),
        (decoder, target, target),
        (cross, tuple(SOURCE), target),
    ):
        assert (one.source_tokens, one.tokens) == (sources, targets)
        assert one.alignment.shape == (2, 2, len(targets), len(sources))
        for layer, name in zip(one.alignment, one.layers, strict=True):
            assert np.array_equal(layer, seen[name][0].numpy())


def test_padding_of_a_sentence_is_left_out(seen, tmp_path):
    encoder, decoder, cross = items(seen, tmp_path, SOURCE[:5], TARGET, sentence=1)
    assert encoder.alignment.shape[2:] == (5, 5)
    assert decoder.alignment.shape[2:] == (3, 3)
    assert cross.alignment.shape[2:] == (3, 5)
    assert np.array_equal(cross.alignment[1], seen["decoder.layers.1.multihead_attn"][1, :, :3, :5].numpy())


def test_tokens_that_do_not_fit_are_refused(seen, tmp_path):
    with pytest.raises(ShapeError, match=r"tokens has 5 tokens, but encoder.* has weight on later positions of its 7"):
        seen.plot(tmp_path / "a.png", SOURCE[:5], TARGET)
    with pytest.raises(ShapeError, match=r"tokens has 8 tokens, but .* has 7 positions"):
        seen.plot(tmp_path / "a.png", [*SOURCE, "h"], TARGET, names="encoder*")
    with pytest.raises(ShapeError, match=r"sentence=2, but the weights of encoder.* have 2 rows"):
        seen.plot(tmp_path / "a.png", sentence=2)
    with pytest.raises(ShapeError, match=r"call=1, but encoder.* was called 1 times"):
        seen.plot(tmp_path / "a.png", call=1)
    with pytest.raises(RegardError, match=r"match none of the recorded attentions: encoder\.layers\.0"):
        seen.plot(tmp_path / "a.png", names="x*")


def test_of_a_source_and_a_target_of_equal_length_names_and_what_is_looked_at_decide(tmp_path):
    seen = Seen()
    for name, weights in {
        "encoder.0.self_attn": torch.full((1, 1, 3, 3), 1 / 3),
        "decoder.0.self_attn": torch.eye(3)[None, None],
        "decoder.0.cross_attention": torch.full((1, 1, 3, 3), 1 / 3),
    }.items():
        seen.add(name, (), weights)
    found = [(one.source_tokens, one.tokens) for one in items(seen, tmp_path, list("abc"), list("xyz"))]
    abc, xyz = tuple("abc"), tuple("xyz")
    assert found == [(abc, abc), (xyz, xyz), (abc, xyz)]


def test_calls_are_chosen_or_joined_and_half_precision_is_drawn(tmp_path):
    seen = Seen()
    for width in (1, 2):
        seen.add("a", (), torch.full((1, 1, 1, width), 1 / width, dtype=torch.float16))
    (joined,) = items(seen, tmp_path)
    assert joined.alignment.tolist() == [[[[1, 0], [0.5, 0.5]]]]
    (second,) = items(seen, tmp_path, call=-1)
    assert second.alignment.tolist() == [[[[0.5, 0.5]]]]
    assert second.layers == ("a",)


def test_a_loop_that_repeats_earlier_steps_is_drawn_as_its_last_call(tmp_path):
    """Without a cache step t computes the steps 0 to t, so that each call has the rows of the former ones."""
    own, cross = torch.rand(1, 2, 4, 4).tril().softmax(-1).tril(), torch.rand(1, 2, 4, 6).softmax(-1)
    seen = Seen()
    for steps in range(1, 5):
        seen.add("own", (), own[:, :, :steps, :steps] + 1e-4)
        seen.add("cross", (), cross[:, :, :steps])
        seen.add("encoder", (), cross)
    for name, last in (("own", own + 1e-4), ("cross", cross)):
        torch.testing.assert_close(seen.joined(name), last)
    assert seen.joined("encoder").shape == (1, 2, 16, 6)  # as many steps in each call: maybe others
    _, drawn, _ = items(seen, tmp_path, list("source"), list("outs"), names=["own", "cross", "encoder"])
    assert np.array_equal(drawn.alignment[0], cross[0].numpy())
    seen.add("cross", (), torch.eye(6)[None, None, :5].expand(1, 2, 5, 6))  # another text
    assert seen.joined("cross").shape == (1, 2, 15, 6)


def test_places_in_a_module_are_layers_of_one_picture(tmp_path):
    seen = Seen()
    for site in range(2):
        seen.add("model.attend", (site,), torch.eye(2)[None, None])
    (both,) = items(seen, tmp_path)
    assert (both.text, both.layers) == ("model.attend.*", ("model.attend.0", "model.attend.1"))


def test_a_picture_of_nothing_says_that_nothing_was_recorded(tmp_path):
    with pytest.raises(RegardError, match=r"^No attention was recorded"):
        Seen().plot(tmp_path / "a.png")


def test_the_page_has_a_choice_of_attentions(seen, tmp_path):
    seen.plot(tmp_path / "a.html", SOURCE, [*TARGET, "</s>"], title="t")
    data = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "a.html").read_text())[1])
    assert data["noun"] == "attention"
    assert data["items"][0]["name"] == "1 · encoder.layers.*.self_attn"
    panels = data["items"][2]["panels"]
    assert [(panel["layer"], panel["head"]) for panel in panels] == [
        (f"decoder.layers.{layer}.multihead_attn", str(head)) for layer in range(2) for head in range(2)
    ]


def test_a_rollout_multiplies_layers_with_their_residual_connections(seen):
    rollout = seen.rollout("encoder.*")
    expected = torch.eye(7)
    for layer in range(2):
        weights = seen[f"encoder.layers.{layer}.self_attn"].mean(1)
        expected = (0.5 * weights + 0.5 * torch.eye(7)) @ expected
    torch.testing.assert_close(rollout[0], expected[0])
    assert rollout.shape == (2, 7, 7)
    torch.testing.assert_close(rollout[0].sum(-1), torch.ones(7))
    for names in ("*", "decoder.*.multihead_attn", "none"):
        with pytest.raises(ShapeError, match="A rollout needs layers of self-attention"):
            seen.rollout(names)
    alike = Seen()  # a model whose source and target have the same length
    for name, weights in (("enc.0", torch.ones(3, 3) / 3), ("dec.0", torch.eye(3)), ("dec.1", torch.ones(3, 3).tril())):
        alike.add(name, (), weights[None, None])
    with pytest.raises(ShapeError, match=r"match only dec\.0, dec\.1 are causal"):
        alike.rollout()
    assert alike.rollout("dec.*").shape == alike.rollout("enc.*").shape == (1, 3, 3)
    twice = Seen()
    for _ in range(2):
        twice.add("a", (), torch.eye(2)[None, None])
    with pytest.raises(ShapeError, match="each called once"):
        twice.rollout()
