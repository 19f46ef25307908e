"""One step of the layers of a Transformer decoder, whose keys and values stand in buffers of all steps."""
