"""The support, prior and gain of windows, position by position."""
