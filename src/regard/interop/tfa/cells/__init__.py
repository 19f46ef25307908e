"""Cells of TensorFlow 1 and of Keras, and their wrappers."""
