"""SpeechBrain's Tacotron 2."""

from __future__ import annotations

from regard.models.peers import nvidia

tacotron2 = nvidia.tacotron2
"""NVIDIA's model. The recipe differs: guided attention of width 0.2 and weight 50, halved every 10 epochs, for 50."""
names = nvidia.names
