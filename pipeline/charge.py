"""Whom a fault is charged to: the rules are those that `verdict` tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pipeline import chain
from pipeline import plan as plans
from pipeline.bootview import Fault, Observation, State
from pipeline.model import CaseId, KernelPlan, Outcome, Plan, Revision, Role
from pipeline.observation import Witness
from pipeline.odds import Rates
from pipeline.slots import Slot, What

LONG_ENOUGH = 10.0  # times of what a workload took on base: more than a busy host's doing
_LOADED = (
    "a busy host alone can bring that about under TCG: "
    "it counts where it comes in every boot, of at least two (--boots 5), and without a base only "
    "in boots that had the host to themselves (--exclusive always)"
)
_NO_SSH = (
    "answered over ssh in the same cell, so the series may have broken the network or sshd: "
    "--transport console runs the same steps without a network"
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """All planned cases, in plan order, and what was seen of each, by its name."""

    witness: Witness
    slots: tuple[Slot, ...]
    seen: Mapping[CaseId, Observation]

    @property
    def plan(self) -> Plan:
        return self.witness.plan

    @cached_property
    def places(self) -> Mapping[tuple[object, ...], tuple[Slot, ...]]:
        """The cases of each kernel in each place."""
        found: dict[tuple[object, ...], list[Slot]] = {}
        for slot in self.slots:
            found.setdefault((slot.kernel.name, slot.cell, slot.target), []).append(slot)
        return {place: tuple(those) for place, those in found.items()}

    def charge(self, slot: Slot) -> tuple[Outcome, str]:
        """Whose fault it is that was seen of this case, and the reason in one line."""
        observed = self.seen[slot.id]
        if all(fault.known for fault in observed.faults):
            return Outcome.KNOWN, f"{observed.faults[0].known}: {observed.reason}"
        if slot.kernel.role is not Role.PATCHED:
            return Outcome.BASE_BROKEN, f"{name(slot.kernel)} is broken: {observed.reason}"
        if slot.what in {What.WARNINGS, What.CHECK}:
            return Outcome.FAILED, f"{chain.patch(slot.kernel)}: {observed.reason}"
        if slot.what in {What.APPLY, What.TRIAL}:
            return Outcome.FAILED, observed.reason
        return Against(slot=slot, observed=observed, bench=self).charge()

    def no_ssh(self, slot: Slot) -> str:
        """What to do where ssh does not reach a patched guest that lives, and reaches base's."""
        observed = self.seen[slot.id]
        against = Against(slot=slot, observed=observed, bench=self)
        if not observed.no_ssh or against.below is None or against.twin is None:
            return ""
        its = self.seen[against.twin.id]
        answered = its.state in {State.GOOD, State.FAULTY} and not its.short
        return f"; {name(against.below)} {_NO_SSH}" if answered else ""


@dataclass(frozen=True, kw_only=True)
class Against:
    """A fault of a patched kernel, held against the kernel below it."""

    slot: Slot
    observed: Observation
    bench: Bench

    @cached_property
    def below(self) -> KernelPlan | None:
        return plans.below(self.bench.plan.scenario, self.slot.kernel)

    @cached_property
    def there(self) -> tuple[Slot, ...]:
        """The cases of the kernel below in the same place."""
        if self.below is None:
            return ()
        return self.bench.places.get((self.below.name, self.slot.cell, self.slot.target), ())

    @cached_property
    def twin(self) -> Slot | None:
        """The same case of the kernel below; None where that is not built for this target."""
        about = self.slot.what, self.slot.source
        return next((each for each in self.there if (each.what, each.source) == about), None)

    @cached_property
    def its(self) -> Observation | None:
        """What was seen of the twin, by those boots of it that tell, if there are any."""
        if self.twin is None:
            return None
        told = self.bench.witness.told(self.twin) if self.twin.cell else None
        return told or self.bench.seen[self.twin.id]

    def charge(self) -> tuple[Outcome, str]:
        new = [fault for fault in self.observed.faults if not self._is_old(fault)]
        if self.below and not new:
            if more := self._more_often():
                return Outcome.FAILED, more
            reason = f"{name(self.below)} is broken too: {self.observed.reason}"
            return Outcome.BASE_BROKEN, reason
        doubts = [self._doubt(fault) for fault in new]
        for fault, doubt in zip(new, doubts, strict=True):
            if not doubt:
                return Outcome.FAILED, fault.text + self._besides(fault)
        return Outcome.INCONCLUSIVE, f"{new[0].text}; {doubts[0]}"

    def _is_old(self, fault: Fault) -> bool:
        return bool(fault.known) or fault.key in self._known

    @cached_property
    def _known(self) -> frozenset[tuple[str, str]]:
        """Everything that the kernel below did wrong in this place."""
        faults = {fault.key for each in self.there for fault in self.bench.seen[each.id].faults}
        if self.slot.cell and self.below:
            faults |= self.bench.witness.findings(self.slot.cell, self.below.name)
        return frozenset(faults)

    def _besides(self, fault: Fault) -> str:
        """What else is to be said of a fault that is charged: by which patch, how often."""
        if self.slot.what is What.BUILD:
            witness, target = self.bench.witness, self.slot.target
            scenario = witness.plan.scenario
            words = chain.of_failure(scenario, witness.evidence, target, self.slot.kernel)
        else:
            rates = self._rates(fault) if fault.boots < fault.of else None
            words = self._in_words(rates) if rates else ""
        return f"; {words}" if words else ""

    # ----------------------------------------------------------------------- on some boots only

    def _rates(self, fault: Fault) -> Rates | None:
        """How often a fault came on either side; None where no boot of the kernel below tells."""
        if self.twin is None or self.twin.cell is None:
            return None
        base, of_base = self.bench.witness.often(self.twin, self.there, fault.key)
        if not of_base:
            return None
        return Rates(patched=fault.boots, of=fault.of, base=base, of_base=of_base)

    def _in_words(self, rates: Rates) -> str:
        """… and whether the number of boots was fixed beforehand."""
        assert self.below is not None
        plan, words = self.bench.plan, rates.words(name(self.below))
        if not plan.rate:
            return words
        return f"{words}; the {plan.scenario.boots} boots of each are for a rate of {plan.rate:g}"

    def _more_often(self) -> str:
        """What the kernel below has too, but less often, by more than chance; "" for nothing."""
        for fault in self.observed.faults:
            rates = None if fault.known else self._rates(fault)
            if rates and rates.more_often:
                return f"{fault.text}; more often than below: {self._in_words(rates)}"
        return ""

    def _by_chance(self, fault: Fault) -> str:
        """Why a fault that came on some boots only may be chance, or ""."""
        rates = self._rates(fault) if fault.boots < fault.of else None
        if rates is None or rates.more_often:
            return ""
        return f"{self._in_words(rates)}: {rates.needed}"

    # ----------------------------------------------------------------------- doubts

    def _doubt(self, fault: Fault) -> str:
        """Why a fault cannot be charged, or ""."""
        if self.below and self.its and not self._tells(fault, self.its):
            return f"cannot be held against {name(self.below)}: {self.its.short or self.its.reason}"
        if fault.by_load and not self._beyond_load(fault):
            return _LOADED
        return self._by_chance(fault)

    def _beyond_load(self, fault: Fault) -> bool:
        """Whether more than a busy host must be behind a fault."""
        if fault.shared and self.its is None:
            return False  # base would have been as busy; without one there is only our own doing
        if fault.boots == fault.of >= 2:
            return True
        if fault.kind != "timeout":
            return False
        if self.its is None:
            return True
        return self.its.state is State.GOOD and fault.waited >= LONG_ENOUGH * self.its.seconds

    def _tells(self, fault: Fault, its: Observation) -> bool:
        """Whether the kernel below got far enough to say that this fault is not its own.

        Of a build only the first error is known, and with `make -j` it is any of several: where
        base does not build either, another error is the series' only in a file that it changes.
        """
        if its.state not in {State.GOOD, State.FAULTY}:
            return False
        if self.slot.what is What.BUILD:
            return its.state is State.GOOD or fault.file in self._touched()
        if not its.short:
            return True
        if its.state is State.GOOD:  # it got past the boot, and not to the end of its steps
            return fault.fatal
        fatal = {each.key for each in its.faults if each.fatal}
        mine = {each.key for each in self.observed.faults}
        return not fault.fatal and bool(fatal) and fatal <= mine

    def _touched(self) -> set[str]:
        kernel = self.slot.kernel
        revision = self.bench.witness.evidence.revisions.get(kernel.name)
        files = set(revision.files_changed) if isinstance(revision, Revision) else set()
        patches = kernel.series.patches if kernel.series else ()
        return files.union(*(patch.files for patch in patches))


def name(kernel: KernelPlan) -> str:
    return "base" if kernel.role is Role.BASE else f"prerequisite “{kernel.name}”"
