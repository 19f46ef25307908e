"""Small models of OpenNMT-py 3.5.1, trained by it, converted and compared.

python benchmarks/conversion/compare_opennmt.py
"""

from comparison import Program, main

CASES = (
    "lstm_general",
    "gru_mlp",
    "lstm_dot_bridge",
    "transformer",
    "transformer_rotary",
    "transformer_relative",
)

PROGRAM = Program("opennmt", "opennmt_py", "opennmt_peer.py", CASES, lambda folder: folder / "model.pt")

if __name__ == "__main__":
    main(PROGRAM)
