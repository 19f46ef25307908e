"""Configuration: one YAML file, checked with file, line and column."""
