"""The parts that tasks with texts as outputs share: search, decoders, metrics and training."""
