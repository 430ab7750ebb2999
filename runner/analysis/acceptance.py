"""Acceptance pooled over requests. Sums are integers, so order and grouping change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runner.analysis.records import Outcome, RequestRecord, SpecRecord


@dataclass(frozen=True)
class Bounded:
    """A ratio over decode steps, which are known between bounds.

    `value` rests on the steps seen as streamed pieces where these fit the bounds of every
    request (`observed`), else on the largest possible number of steps.
    """

    value: float
    low: float
    high: float
    observed: bool


@dataclass(frozen=True)
class Acceptance:
    """Pooled acceptance of a set of requests. A figure is None when nothing was drafted.

    `positions[i]` is the share of drafted steps that accepted more than i drafts, `conditional[i]`
    the same among those that accepted at least i. `k` is None when requests differ in it.
    """

    requests: int
    errors: int
    missing: int
    steps: int
    accepted: int
    drafted: int
    k: int | None
    length: float | None
    rate: float | None
    positions: tuple[float, ...]
    conditional: tuple[float | None, ...]
    coverage: Bounded | None
    tokens_per_step: Bounded | None


@dataclass
class AcceptancePool:
    """Running sums over requests; add records in any order, merge pools in any order."""

    requests: int = 0
    errors: int = 0
    missing: int = 0
    steps: int = 0
    accepted: int = 0
    drafted: int = 0
    decode_tokens: int = 0
    decode_steps_low: int = 0
    decode_steps_high: int = 0
    decode_steps_seen: int = 0
    unseen: int = 0
    histogram: Counter[int] = field(default_factory=Counter)
    ks: Counter[int] = field(default_factory=Counter)

    def add(self, record: RequestRecord) -> None:
        """Take one request in; only a good one with speculative figures enters the sums."""
        if record.good:
            self.add_good((record,))
        else:
            self.errors += record.outcome is not Outcome.CANCELLED

    def add_good(self, records: Sequence[RequestRecord]) -> None:
        """Take in requests that are known to be good; many at a time cost least."""
        found = [(record, spec) for record in records if (spec := record.spec) is not None]
        specs = [spec for _, spec in found]
        self.missing += len(records) - len(found)
        self.requests += len(found)
        self.steps += sum([spec.steps for spec in specs])
        self.accepted += sum([spec.accepted for spec in specs])
        self.drafted += sum([spec.drafted for spec in specs])
        self.ks.update([k for spec in specs if (k := spec.num_spec_tokens) is not None])
        histogram = dict[int, int]()
        known = histogram.get
        decoded = lows = highs = seen = unseen = 0
        for record, spec in found:
            for accepted, count in spec.histogram.items():
                histogram[accepted] = known(accepted, 0) + count
            tokens = spec.completion_tokens or record.output_tokens or 1
            low, high = decode_steps(tokens, spec)
            decoded += tokens - 1
            lows += low
            highs += high
            gaps = record.stream_gaps
            if gaps is not None and low <= gaps <= high:
                seen += gaps
            else:
                unseen += 1
        self.histogram.update(histogram)
        self.decode_tokens += decoded
        self.decode_steps_low += lows
        self.decode_steps_high += highs
        self.decode_steps_seen += seen
        self.unseen += unseen

    def merge(self, other: AcceptancePool) -> None:
        """Take in what another pool holds."""
        for name in self.__dataclass_fields__:
            own = getattr(self, name)
            if isinstance(own, Counter):
                # unlike a sum of counters, this keeps what was counted zero times
                own.update(getattr(other, name))
            else:
                setattr(self, name, own + getattr(other, name))

    def acceptance(self) -> Acceptance:
        """The figures of everything taken in so far."""
        k = next(iter(self.ks)) if len(self.ks) == 1 else None
        positions = self._reached(k)
        return Acceptance(
            requests=self.requests,
            errors=self.errors,
            missing=self.missing,
            steps=self.steps,
            accepted=self.accepted,
            drafted=self.drafted,
            k=k,
            # one division of whole numbers: k + 1 comes out exact
            length=(self.steps + self.accepted) / self.steps if self.steps else None,
            rate=self.accepted / self.drafted if self.drafted else None,
            positions=tuple(reached / self.steps for reached in positions),
            conditional=conditional_rates(self.steps, positions),
            coverage=self._per_decode_step(self.steps),
            tokens_per_step=self._per_decode_step(self.decode_tokens),
        )

    def _reached(self, k: int | None) -> tuple[int, ...]:
        if not self.steps or self.histogram.total() != self.steps:
            return ()
        highest = k if k is not None else max(self.histogram)
        return tuple(
            sum(count for accepted, count in self.histogram.items() if accepted >= position)
            for position in range(1, highest + 1)
        )

    def _per_decode_step(self, numerator: int) -> Bounded | None:
        if not self.requests or not self.decode_steps_low:
            return None
        observed = self.unseen == 0
        best = self.decode_steps_seen if observed else self.decode_steps_high
        return Bounded(
            value=numerator / best,
            low=numerator / self.decode_steps_high,
            high=numerator / self.decode_steps_low,
            observed=observed,
        )


def decode_steps(completion_tokens: int, spec: SpecRecord) -> tuple[int, int]:
    """Least and most decode steps of a request, drafted or not.

    Each step emits one token more than it accepted, and the first token comes from the prefill:
    steps = completion - 1 - accepted and emitted. Drafts that were accepted in the last step and
    cut off by the token limit count as accepted, hence the bounds.
    """
    cut, steps = spec.accepted_last, spec.steps
    if cut is None:
        cut = max((accepted for accepted, count in spec.histogram.items() if count), default=0)
    least = completion_tokens - 1 - spec.accepted
    most = least + cut
    return least if least > steps else steps, most if most > steps else steps


def conditional_rates(steps: int, reached: tuple[int, ...]) -> tuple[float | None, ...]:
    """Share of the steps that accepted a position among those that accepted the one before; None
    where none did. `reached` counts steps by position."""
    before = (steps, *reached)
    return tuple(now / then if then else None for then, now in zip(before, reached, strict=False))


def pool(records: Iterable[RequestRecord]) -> AcceptancePool:
    """A pool of these records."""
    result = AcceptancePool()
    for record in records:
        result.add(record)
    return result
