"""Runs of any task: what a task is, its training from configuration to run folder, and saved models."""
