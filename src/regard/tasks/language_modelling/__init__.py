"""Language modelling: running text, and a model that predicts its next token."""
