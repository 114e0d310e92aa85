"""Numbers out of what a workload or a probe printed. Pure.

A reading is a regular expression, searched in each line of the output, and the numbers that
its named groups hold. A metric's name is a template over all named groups of the match, so
that `{cache}.order` becomes `kmalloc-1k.order`: the same name on every kernel and in every run.

While a workload runs a probe may be read several times (see `workload`): that output holds
several blocks, each ended by a line of `end_of_reading`. What is reported for such a phase is
the *worst* reading of each metric: the largest where lower is better (or where neither is),
the smallest where higher is better. Not the mean: how many readings fall on the workload's
start and end depends on how fast it is, and would move a mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.model import Better, Output, Phase, Reading, Sample, Value

_END = "-- ktrial: end of reading, status "
_BEHIND = (Phase.AFTER, Phase.AFTER_DROP)
_END_LINE = re.compile(rf"^{re.escape(_END)}(\d+)\s*$")


def end_of_reading(status: str) -> str:
    """The line that ends one of several readings; `status` is the probe's exit status."""
    return f"{_END}{status}"


def problem(source: str, phase: Phase, text: str) -> str:
    """How a problem with numbers is worded; `concerns` tells whose it is."""
    return f"{source} ({phase.value}): {text}"


def concerns(text: str, source: str) -> bool:
    """True where the problem `text` belongs to this workload or probe."""
    return text.startswith((f"{source} (", f"{source}: "))


def read(readings: Sequence[Reading], output: Output) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """The numbers in one output, and what kept numbers from being read.

    Samples are unique by metric and in the order of their first line. An output that did not
    end well has no numbers, and no problems either: its exit status says it all.
    """
    if output.exit_status != 0:
        return (), ()
    blocks, troubles = _blocks(output)
    samples: dict[str, Sample] = {}
    for block in blocks:
        found, found_troubles = _read_block(readings, block, output)
        troubles += found_troubles
        for metric, sample in found.items():
            samples[metric] = _worse(samples.get(metric), sample)
    return (
        tuple(samples.values()),
        tuple(problem(output.source, output.phase, trouble) for trouble in dict.fromkeys(troubles)),
    )


def of_boot(
    readings: Mapping[str, Sequence[Reading]], deltas: Collection[str], outputs: Iterable[Output]
) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """What a boot's outputs tell, in their order, and what kept numbers from being read.

    `readings`: by source. `deltas`: the sources of which only the growth tells anything.
    """
    found = [read(readings.get(each.source, ()), each) for each in outputs]
    samples = [sample for its, _ in found for sample in its]
    return differences(samples, deltas), tuple(each for _, bad in found for each in bad)


def differences(samples: Iterable[Sample], sources: Collection[str]) -> tuple[Sample, ...]:
    """The samples, in which those that one of `sources` read behind the workload are by how much
    its numbers grew since before it. What was not there before grew from nothing; what was not
    read before at all has grown by nobody knows what, and is left out.
    """
    read = tuple(samples)
    before = {
        (sample.source, sample.metric): sample.value
        for sample in read
        if sample.phase is Phase.BEFORE and sample.source in sources
    }
    started = {source for source, _ in before}
    grown: list[Sample] = []
    for sample in read:
        if sample.source not in sources or sample.phase not in (Phase.BEFORE, *_BEHIND):
            grown.append(sample)
        elif sample.phase in _BEHIND and sample.source in started:
            was = before.get((sample.source, sample.metric), 0.0)
            grown.append(replace(sample, value=sample.value - was))
    return tuple(grown)


def check(readings: Iterable[Reading]) -> list[str]:
    """What is wrong with the readings of a data file, in words; empty where nothing is."""
    return [trouble for reading in readings for trouble in _check(reading)]


def _check(reading: Reading) -> Iterator[str]:
    try:
        groups = set(re.compile(reading.pattern).groupindex)
    except re.error as error:
        yield f"pattern “{reading.pattern}” is not a regular expression: {error}"
        return
    if not reading.values:
        yield f"pattern “{reading.pattern}” has no values"
    for value in reading.values:
        used = {value.group, *re.findall(r"{(\w*)}", value.name)}
        if unknown := sorted(used - groups):
            yield f"pattern “{reading.pattern}” has no group named “{unknown[0]}”"


def _blocks(output: Output) -> tuple[list[list[str]], list[str]]:
    """The output's readings as lines, and those readings' failures."""
    lines = output.text.splitlines()
    if output.phase is not Phase.DURING:
        return [lines], []
    blocks: list[list[str]] = []
    troubles: list[str] = []
    block: list[str] = []
    for line in lines:
        if end := _END_LINE.match(line):
            if end[1] == "0":
                blocks.append(block)
            else:
                troubles.append(f"a reading ended with status {end[1]}")
            block = []
        else:
            block.append(line)
    if not blocks and not troubles:
        troubles.append("no reading was finished while the workload ran")
    return blocks, troubles


def _read_block(
    readings: Sequence[Reading], lines: Sequence[str], output: Output
) -> tuple[dict[str, Sample], list[str]]:
    samples: dict[str, Sample] = {}
    troubles: list[str] = []
    for reading in readings:
        pattern = re.compile(reading.pattern)
        matches = [match for line in lines if (match := pattern.search(line))]
        if reading.required and not matches:
            troubles.append(f"no line matches “{reading.pattern}”")
        for match in matches:
            for value in reading.values:
                sample = _sample(match, value, output)
                if isinstance(sample, str):
                    troubles.append(sample)
                elif samples.setdefault(sample.metric, sample) is not sample:
                    troubles.append(f"{sample.metric} is there more than once")
    return samples, troubles


def _sample(match: re.Match[str], value: Value, output: Output) -> Sample | str:
    """The number of one group, or in words why there is none."""
    text = match[value.group] or ""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        return f"“{text}” is not a number, in “{match[0]}”"
    groups = {name: found or "" for name, found in match.groupdict().items()}
    return Sample(
        source=output.source,
        phase=output.phase,
        metric=value.name.format_map(groups),
        value=number,
        unit=value.unit,
        better=value.better,
    )


def _worse(one: Sample | None, other: Sample) -> Sample:
    if one is None:
        return other
    pick = min if other.better is Better.HIGHER else max
    return pick(one, other, key=lambda sample: sample.value)
