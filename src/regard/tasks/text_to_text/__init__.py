"""Text to text: pairs of texts, and a model that turns one into the other."""
