"""Every case of the lists, on the device as on the CPU: results, gradients and states, in float64 and float32."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from place import Place, Result, short
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from regard import tree
from regard.decoding import Search, free_run, search
from regard.testing.decoder_subject import DecoderSubject, seen
from regard.testing.mechanism import move_weights
from regard.testing.source import encode
from regard.testing.subject import Subject, as_tuple
from support import cases as lists
from support.cases.case import draw, ids

TOLERANCES = {torch.float64: 1e-9, torch.float32: 3e-4}
"""Of differences, beside the largest number or 1."""
BOS, EOS, STEPS, LENGTH = 0, 1, 4, 7
SEARCHES = (
    Search(beam=1),
    Search(beam=5),
    Search(beam=5, num_best=3, length_penalty="gnmt", min_length=3),
    Search(beam=4, num_groups=2, diversity=0.5),
    Search(beam=3, keep_finished=True),
    Search(method="sampling", seed=3, temperature=0.8),
)
Answer = Mapping[str, Tensor]
Job = Callable[[Any, torch.device, torch.dtype], Answer]
"""From a case, a device and a type to results by name."""


def mechanisms(place: Place, result: Result) -> None:
    """Contexts, alignments and states of `forward` and of steps; gradients."""
    compare(place, result, {"mechanisms": (lists.MECHANISMS, of_mechanism)})


def decoders(place: Place, result: Result) -> None:
    """Outputs of `forward` and of steps; gradients."""
    compare(place, result, {"decoders": (lists.DECODERS, of_decoder)})


def searches(place: Place, result: Result) -> None:
    """Tokens and log-probabilities of searches; values of free runs."""
    compare(place, result, {"searches and free runs": (lists.DECODERS, of_search)})


def parts(place: Place, result: Result) -> None:
    """All other lists."""
    jobs: dict[str, tuple[Iterable[Any], Job]] = {
        "operations": (lists.OPERATIONS, of_operation),
        "losses": (lists.LOSSES, of_loss),
        "layers": (lists.LAYERS, of_layer),
        "encoders": (lists.ENCODERS, of_encoder),
        "encoders of images": (lists.IMAGE_ENCODERS, of_image_encoder),
        "classifiers": (lists.CLASSIFIERS, of_classifier),
    }
    compare(place, result, jobs)


def compare(place: Place, result: Result, jobs: Mapping[str, tuple[Iterable[Any], Job]]) -> None:
    """A row for every list and type; a failure for every case that differs or cannot run."""
    add, done = result.table("cases", "type", "equal", "largest difference", "of", "seconds"), 0
    for kind, (cases, job) in jobs.items():
        for dtype, tolerance in TOLERANCES.items():
            start, equal, worst = time.monotonic(), [], (0.0, "")
            for case in cases:
                try:
                    error, name = difference(
                        *(job(case, device, dtype) for device in (torch.device("cpu"), place.device))
                    )
                except Exception as problem:  # whatever it is, the other cases are compared
                    result.failures.append(f"{case.name}, {short(dtype)}: {type(problem).__name__}: {problem}"[:500])
                    equal.append(False)
                    continue
                equal.append(error <= tolerance)
                worst = max(worst, (error, f"{case.name}: {name}"))
                if not equal[-1]:
                    result.failures.append(f"{case.name}, {short(dtype)}: {name} differs by {error:.1e}")
                done += equal[-1]
                result.summary = f"{done} comparisons equal"
                result.save()
            seconds = time.monotonic() - start
            add(kind, short(dtype), f"{sum(equal)} of {len(equal)}", f"{worst[0]:.1e}", worst[1], f"{seconds:.0f}")


def difference(expected: Answer, found: Answer) -> tuple[float, str]:
    """The largest difference beside the largest number or 1, and whose it is."""
    if expected.keys() != found.keys():
        return float("inf"), ", ".join(sorted(expected.keys() ^ found.keys()))
    worst = 0.0, ""
    for name, value in expected.items():
        theirs, ours = value.detach().double(), found[name].detach().cpu().double()
        if theirs.shape != ours.shape:
            return float("inf"), name
        off = torch.where(theirs == ours, 0.0, (theirs - ours).abs())  # infinities may be equal
        finite = theirs[theirs.isfinite()].abs()
        scale = max(1.0, float(finite.max()) if finite.numel() else 0.0)
        error = float(off.max()) / scale if off.numel() else 0.0
        worst = max(worst, (error if error == error else float("inf"), name))
    return worst


def placed(numbers: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """All tensors within numbers, on a device, floating ones in a type."""

    def move(x: Tensor) -> Tensor:
        return x.to(device, dtype) if x.is_floating_point() else x.to(device)

    return pytree.tree_map_only(Tensor, move, numbers)


def module_of(case: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """The module of a case, with the same weights every time, in evaluation mode."""
    torch.manual_seed(0)
    module: nn.Module = copy.deepcopy(case.make()).double().eval()  # some cases share parts
    move_weights(module)
    return module.to(device, dtype)


def differentiated(results: Mapping[str, Tensor], leaves: Iterable[Tensor]) -> Answer:
    """Results, and the gradients of their sum with drawn weights."""
    answer, total = dict(results), None
    for seed, x in enumerate(results.values()):
        if x.requires_grad:
            weights = draw(x.numel(), seed=seed).view(x.shape).to(x)
            part = (torch.where(x.isfinite(), x, 0.0) * weights).sum()
            total = part if total is None else total + part
    chosen = [leaf for leaf in leaves if leaf.requires_grad]
    if total is None or not chosen:
        return answer
    gradients = torch.autograd.grad(total, chosen, allow_unused=True)
    return answer | {f"gradient {i}": g for i, g in enumerate(gradients) if g is not None}


def named(results: Any, what: str = "result") -> dict[str, Tensor]:
    """The tensors of results."""
    found = results if isinstance(results, tuple | list) else (results,)
    leaves = [leaf for each in found if each is not None for leaf in tree.leaves(each)]
    return {f"{what} {number}": x for number, x in enumerate(leaves)}


def with_gradients(inputs: Sequence[Any]) -> list[Any]:
    """Inputs of which floating ones have gradients."""
    return [x.detach().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs]


def of_call(call: Callable[..., Any], inputs: Sequence[Any], weights: Iterable[Tensor] = ()) -> Answer:
    """Results and gradients of a call."""
    given = with_gradients(inputs)
    return differentiated(named(call(*given)), [*(x for x in given if isinstance(x, Tensor)), *weights])


def of_operation(case: lists.OperationCase, device: torch.device, dtype: torch.dtype) -> Answer:
    return of_call(case.shows[0], placed(case.inputs(), device, dtype))


def of_loss(case: lists.LossCase, device: torch.device, dtype: torch.dtype) -> Answer:
    return of_call(case.call, placed([x for _, x in case.inputs()], device, dtype))


def of_layer(case: lists.LayerCase, device: torch.device, dtype: torch.dtype) -> Answer:
    layer = module_of(case, device, dtype)
    call = lambda *inputs: case.call(layer, *inputs)  # noqa: E731
    return of_call(call, placed(case.inputs(), device, dtype), layer.parameters())


def of_encoding(encoder: Any, inputs: Sequence[Tensor]) -> Answer:
    """What an encoder makes of inputs and their mask."""

    def call(*inputs: Tensor) -> tuple[Any, ...]:
        encoded = encoder.encode(*inputs)
        return encoded.memory, encoded.mask, encoded.final_state

    return of_call(call, inputs, encoder.parameters())


def of_encoder(case: lists.EncoderCase, device: torch.device, dtype: torch.dtype) -> Answer:
    encoder = module_of(case, device, dtype)
    mask = torch.arange(5) < torch.tensor([5, 3, 4])[:, None]
    return of_encoding(encoder, placed([ids(3, 5), mask], device, dtype))


def of_image_encoder(case: lists.ImageEncoderCase, device: torch.device, dtype: torch.dtype) -> Answer:
    encoder = module_of(case, device, dtype)
    mask = torch.zeros(2, 33, 40, dtype=torch.bool)
    mask[0], mask[1, :20, :31] = True, True
    images = draw(2, 2, 33, 40) * mask[:, None]
    return of_encoding(encoder, placed([images, mask], device, dtype))


def of_classifier(case: lists.ClassifierCase, device: torch.device, dtype: torch.dtype) -> Answer:
    classifier = module_of(case, device, dtype)
    mask = torch.arange(4) < torch.tensor([[4, 2, 3], [1, 0, 0]])[..., None]
    call = lambda *inputs: classifier(*inputs).logits  # noqa: E731
    return of_call(call, placed([ids(2, 3, 4), mask], device, dtype), classifier.parameters())


def of_mechanism(case: lists.MechanismCase, device: torch.device, dtype: torch.dtype) -> Answer:
    several, size = not isinstance(case.memory_size, int), case.memory_size
    sizes = (size,) if isinstance(size, int) else tuple(size)
    mechanism = module_of(case, device, dtype)
    subject = Subject(mechanism, case.query_size, sizes, several, case.input_size, case.key_size, torch.float64)
    sources, queries = subject.sources((5, 3)), subject.queries(2, STEPS)
    drawn = sources.values, sources.masks, queries, subject.inputs(queries), subject.keys(sources)
    values, masks, queries, inputs, keys = placed(drawn, device, dtype)
    *values, queries = with_gradients([*values, queries])
    options = {} if keys is None else {"keys": keys}
    memory = mechanism.prepare(subject.argument(tuple(values)), mask=subject.argument(masks), **options)
    attended, state = mechanism(queries, memory, None, inputs=inputs, alignment=True)
    results = named((attended.context, as_tuple(attended.alignment), state), "forward")
    state, contexts = mechanism.initial_state(memory, 1), []
    for t in range(STEPS):
        given = None if inputs is None else inputs[:, t]
        attended, state = mechanism.step(queries[:, t], memory, state, inputs=given, alignment=True)
        contexts.append(attended.context)
    results |= named((torch.stack(contexts, 1), state), "steps")
    return differentiated(results, [*values, queries, *mechanism.parameters()])


def subject_of(case: lists.DecoderCase, device: torch.device, dtype: torch.dtype) -> tuple[DecoderSubject, Any]:
    """A decoder on a device, and the memory of its sources."""
    decoder, sources = module_of(case, device, dtype), tuple(case.sources())
    subject = DecoderSubject(decoder, sources, encode, case.num_tokens, case.num_features, BOS, EOS)
    encoded = tree.map(lambda x: placed(x, device, dtype), encode(sources))
    return subject, decoder.prepare(encoded)


def of_decoder(case: lists.DecoderCase, device: torch.device, dtype: torch.dtype) -> Answer:
    subject, memory = subject_of(case, device, dtype)
    inputs = placed(subject.inputs(range(len(subject.sources)), STEPS), device, dtype)
    results = {f"forward {k}": x for k, x in seen(subject.decoder.forward(inputs, memory, alignment=True)).items()}
    results |= {f"steps {k}": x for k, x in seen(subject.loop(memory, inputs)[0]).items()}
    return differentiated(results, subject.decoder.parameters())


@torch.no_grad()
def of_search(case: lists.DecoderCase, device: torch.device, dtype: torch.dtype) -> Answer:
    """Tokens are compared in float64 only, as rounding may change which of two equal hypotheses is the better one."""
    subject, memory = subject_of(case, device, dtype)
    sentences = range(len(subject.sources))
    if not subject.has_tokens:
        known = placed(subject.inputs(sentences, LENGTH), device, dtype)

        def feed(values: Tensor, rows: Tensor, step: int) -> Tensor:
            return torch.cat([values, known[rows, step, values.shape[1] :]], 1)

        trajectories = free_run(subject.decoder, memory, known[:, 0], max_length=LENGTH, feed=feed, alignment=True)
        return {f"row {row}": trajectory.values for row, trajectory in enumerate(trajectories)}
    answer = {}
    for number, options in enumerate(SEARCHES if dtype == torch.float64 else SEARCHES[:2]):
        found = search(subject.decoder, memory, options, bos=BOS, eos=EOS, max_length=LENGTH)
        for sentence, hypotheses in enumerate(found):
            for rank, hypothesis in enumerate(hypotheses):
                name = f"search {number}, sentence {sentence}, hypothesis {rank}"
                answer[f"{name}, score"] = torch.tensor(hypothesis.score)
                if dtype == torch.float64:
                    answer[f"{name}, tokens"] = hypothesis.tokens
    return answer
