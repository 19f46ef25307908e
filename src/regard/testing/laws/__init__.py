"""The laws of every mechanism: each is a function of a subject, and its name says what must hold."""

from regard.testing.laws.batches import (
    further_padding_changes_nothing,
    order_of_sentences_changes_nothing,
    sentence_alone_is_as_in_a_batch,
)
from regard.testing.laws.conduct import (
    memory_may_grow,
    nothing_is_kept_on_the_module,
    saved_weights_give_the_same,
    step_can_be_exported,
    threads_may_share_a_mechanism,
    training_is_evaluation_without_dropout,
)
from regard.testing.laws.masks import (
    mask_and_lengths_mean_the_same,
    padding_gets_exactly_zero,
    row_without_support_sees_nothing,
    source_without_positions_reads_zeros,
    weights_are_a_distribution,
)
from regard.testing.laws.numerics import (
    autocast_changes_no_more_than_rounding,
    extreme_energies_stay_finite,
    gradients_are_those_of_finite_differences,
    half_types_are_close_to_float32,
    half_types_bear_a_thousandfold_energies,
)
from regard.testing.laws.steps import (
    asking_for_the_alignment_changes_nothing_else,
    forward_is_the_loop_of_step,
    hypotheses_are_independent,
    no_steps_give_no_contexts,
    reordering_the_state_commutes_with_step,
    trees_hold_rows_of_tensors,
)

__all__ = [
    "asking_for_the_alignment_changes_nothing_else",
    "autocast_changes_no_more_than_rounding",
    "extreme_energies_stay_finite",
    "forward_is_the_loop_of_step",
    "further_padding_changes_nothing",
    "gradients_are_those_of_finite_differences",
    "half_types_are_close_to_float32",
    "half_types_bear_a_thousandfold_energies",
    "hypotheses_are_independent",
    "mask_and_lengths_mean_the_same",
    "memory_may_grow",
    "no_steps_give_no_contexts",
    "nothing_is_kept_on_the_module",
    "order_of_sentences_changes_nothing",
    "padding_gets_exactly_zero",
    "reordering_the_state_commutes_with_step",
    "row_without_support_sees_nothing",
    "saved_weights_give_the_same",
    "sentence_alone_is_as_in_a_batch",
    "source_without_positions_reads_zeros",
    "step_can_be_exported",
    "threads_may_share_a_mechanism",
    "training_is_evaluation_without_dropout",
    "trees_hold_rows_of_tensors",
    "weights_are_a_distribution",
]
