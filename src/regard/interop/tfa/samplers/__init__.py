"""Samplers: what is made of a decoder's outputs, and what is fed next."""
