"""The page "Migration" names every symbol, every line of the list and every fault, and what it names exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))

MECHANISMS = "BahdanauAttention BahdanauMonotonicAttention LuongAttention LuongMonotonicAttention AttentionMechanism"
WRAPPER = "AttentionWrapper AttentionWrapperState hardmax monotonic_attention safe_cumprod"
DECODERS = "BasicDecoder BasicDecoderOutput Decoder dynamic_decode SequenceLoss sequence_loss"
BEAMS = "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState FinalBeamSearchDecoderOutput"
BEAMS += " gather_tree tile_batch"
SHARED = f"{MECHANISMS} {WRAPPER} {DECODERS} {BEAMS}"
PUBLIC = {
    "tensorflow-addons and tf.contrib.seq2seq": f"""{SHARED} BaseDecoder gather_tree_from_array CustomSampler
        GreedyEmbeddingSampler InferenceSampler SampleEmbeddingSampler Sampler ScheduledEmbeddingTrainingSampler
        ScheduledOutputTrainingSampler TrainingSampler CustomHelper GreedyEmbeddingHelper Helper InferenceHelper
        SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper""",
    "Related names of TensorFlow": """dynamic_rnn bidirectional_dynamic_rnn RNNCell GRUCell LSTMCell BasicLSTMCell
        BasicRNNCell LSTMStateTuple MultiRNNCell ResidualWrapper DropoutWrapper RNN LSTM GRU
        Bidirectional Embedding Dense StackedRNNCells TensorArray""",
    "tf.contrib.legacy_seq2seq": "attention_decoder embedding_attention_decoder embedding_attention_seq2seq",
    "pytorch-seq2seq": "Attention BaseRNN DecoderRNN EncoderRNN Seq2seq TopKDecoder",
    "OpenNMT-py": """GlobalAttention CopyGenerator CopyGeneratorLoss collapse_copy_scores Sparsemax LogSparsemax
        MultiHeadedAttention AlibiPositionalBias StdRNNDecoder InputFeedRNNDecoder PenaltyBuilder ConvMultiStepAttention
        AverageAttention MatrixTree""",
    "ESPnet": """NoAtt AttDot AttAdd AttLoc AttCov AttLoc2D AttLocRec AttCovLoc AttMultiHeadDot AttMultiHeadAdd
        AttMultiHeadLoc AttMultiHeadMultiResLoc AttForward AttForwardTA GDCAttLoc att_for initial_att att_to_numpy""",
    "Coqui and Mozilla": """LocationLayer OriginalAttention GravesAttention MonotonicDynamicConvolutionAttention
        init_attn BahdanauAttention AttentionRNNCell""",
}
"""The public names of the originals: tensorflow-addons 0.23, TensorFlow 1.15, pytorch-seq2seq f146087, OpenNMT-py 3.5.1
(GlobalAttention and its relatives), espnet 202511 (pytorch_backend/rnn/attentions.py), coqui-tts 0.28.0."""
LINES, FAULTS, PEERS = "Requirements of a successor", "Faults of five tutorials", "Faults of the originals"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]]+)\])?`")
CASE = re.compile(r"(?<!\w)\[([\w/]+/\w+)\]")


def rows(section):
    """The cells of every row of a section's tables."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ") and not line.startswith("| |")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] not in ("there", "toolkit", "")]


@pytest.mark.parametrize("section", PUBLIC)
def test_every_public_name_of_an_original_has_a_row(section):
    named = {name for row in rows(section) for name in re.findall(r"\w+", row[0])}
    assert set(PUBLIC[section].split()) - named == set()


@pytest.mark.parametrize("section", PUBLIC)
def test_a_row_names_what_is_here_and_its_test_or_says_that_there_is_none(section):
    for there, here, proof in rows(section):
        if here.startswith("none: "):
            assert not proof, there
        else:
            assert "`regard." in here, there
            assert TEST.search(proof) or CASE.search(proof), there


def test_every_name_of_this_library_on_the_page_exists():
    names = set(re.findall(r"`(regard(?:\.\w+)+)", PAGE))
    assert len(names) > 100
    missing = []
    for name in sorted(names):
        found, parts = importlib.import_module("regard"), name.split(".")
        for place in range(1, len(parts)):
            if not hasattr(found, parts[place]):
                try:
                    found = importlib.import_module(".".join(parts[: place + 1]))
                except ImportError:
                    missing.append(name)
                    break
            else:
                found = getattr(found, parts[place])
    assert missing == []


def test_every_test_on_the_page_exists():
    found = set(TEST.findall(PAGE))
    assert len(found) > 80
    missing = []
    for file, name, case in sorted(found):
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        named = case.rpartition("-")[0]
        if f"\ndef {name}(" not in text or (named and f'"{named}"' not in text):
            missing.append(f"{file}::{name}[{case}]" if case else f"{file}::{name}")
    assert missing == []


def test_every_case_in_brackets_is_one_of_the_tests_above_its_table():
    for section in ("OpenNMT-py", "ESPnet", "Coqui and Mozilla"):
        before = SECTIONS[section].partition("\n| ")[0]
        files = {file for file, _, _ in TEST.findall(before)}
        text = "".join((ROOT / file).read_text(encoding="utf-8") for file in files)
        cases = {case for row in rows(section) for case in CASE.findall(row[2])}
        assert cases
        assert [case for case in sorted(cases) if f'"{case}"' not in text] == []


@pytest.mark.parametrize(("section", "count"), [(LINES, 33), (FAULTS, 57)])
def test_every_line_of_the_list_and_every_fault_is_there_with_its_test(section, count):
    found = rows(section)
    assert [int(row[0]) for row in found] == list(range(1, count + 1))
    assert all(all(row) for row in found)
    assert [row[0] for row in found if not TEST.search(row[-1])] == []


def test_every_fault_of_a_tutorial_and_of_an_original_says_where_ours_is():
    for row in [*rows(FAULTS), *rows(PEERS)]:
        assert "`regard." in row[-2], row
        assert TEST.search(row[-1]), row
    toolkits = {name for row in rows(PEERS) for name in row[0].split(", ")}
    assert toolkits >= {"Texar", "tensorflow-addons", "Coqui", "ESPnet", "neural_sp", "SpeechBrain", "OpenNMT-py"}
    assert toolkits >= {
        "OpenNMT (Lua)",
        "ematvey",
        "hedwig",
        "fairseq",
        "x-transformers",
        "keithito",
        "pytorch-seq2seq",
    }


def test_a_fault_that_a_port_avoids_is_one_of_the_page():
    notes = "".join((ROOT / "tests" / name).read_text(encoding="utf-8") for name in NOTES)
    numbers = {int(n) for comment in re.findall(r"# (\d+(?:, \d+)*)(?::|$|\n)", notes) for n in comment.split(", ")}
    assert numbers <= set(range(1, 58))
    assert len(numbers) > 30


NOTES = ("test_compat_notes.py", "test_compat_notes_tensorflow.py")
