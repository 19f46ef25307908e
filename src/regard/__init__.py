"""regard: attention you can trust, look at and afford."""

__version__ = "0.1.0"
