"""Samplers: samples of a decoder's outputs, and its next inputs."""
