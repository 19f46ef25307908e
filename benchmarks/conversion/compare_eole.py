"""Small models of eole 0.6.4, trained by it, converted and compared.

python benchmarks/conversion/compare_eole.py
"""

from comparison import Program, main

CASES = ("lstm_general", "lstm_positions", "gru_mlp", "transformer", "transformer_rotary", "transformer_learned")

PROGRAM = Program("eole", "eole_rnn", "eole_peer.py", CASES, lambda folder: folder / "model")

if __name__ == "__main__":
    main(PROGRAM)
