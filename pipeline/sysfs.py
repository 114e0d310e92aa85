"""Shell commands that bring a guest's CPUs and memory on and off through sysfs. Pure.

They are for busybox's shell and start no programs: each costs 5 to 20 ms under TCG.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

REFUSED = "ktrial: refused "
COUNT = "ktrial: steps "


def cpus(numbers: Iterable[int], *, online: bool) -> str:
    """Bring CPUs on or off, one after the other; each that does not is named."""
    value = "1" if online else "0"
    return _each(numbers, f'echo {value} > "/sys/devices/system/cpu/cpu$n/online"')


def blocks(numbers: Iterable[int], state: str) -> str:
    """Bring memory blocks to "online", "online_movable" or "offline"."""
    return _each(numbers, f'echo {state} > "/sys/devices/system/memory/memory$n/state"')


def offline_blocks(numbers: Sequence[int], count: int) -> str:
    """Bring blocks offline, in this order, until `count` of them are."""
    listed = " ".join(map(str, numbers))
    return f"""left={count}
for n in {listed}; do
[ $left -gt 0 ] || break
if echo offline > "/sys/devices/system/memory/memory$n/state"
then left=$((left - 1))
else echo "{REFUSED}$n"
fi
done"""


def zones(numbers: Iterable[int]) -> str:
    """Which of these blocks are in the zone of what can be moved."""
    listed = " ".join(map(str, numbers))
    return f"""for n in {listed}; do
read -r zone rest < "/sys/devices/system/memory/memory$n/valid_zones"
[ "$zone" = Movable ] && echo $n
done
:"""


def _each(numbers: Iterable[int], command: str) -> str:
    listed = " ".join(map(str, numbers))
    return f"""for n in {listed}; do
{command} || echo "{REFUSED}$n"
done"""


def refused(text: str) -> tuple[int, ...]:
    """The numbers that were named."""
    return tuple(int(number) for number in re.findall(rf"^{REFUSED}(\d+)", text, re.MULTILINE))


def storm(steps: Sequence[tuple[int, bool]], seconds: float) -> str:
    """CPUs on and off as `steps` say, as far as they get in `seconds`."""
    listed = " ".join(f"{cpu}={int(online)}" for cpu, online in steps)
    # /proc/uptime has two decimals: without its point it counts hundredths of a second.
    return f"""read -r up rest < /proc/uptime
end=$((${{up%.*}}${{up#*.}} + {round(seconds * 100)}))
count=0
for step in {listed}; do
read -r up rest < /proc/uptime
[ "${{up%.*}}${{up#*.}}" -ge "$end" ] && break
echo "${{step#*=}}" > "/sys/devices/system/cpu/cpu${{step%=*}}/online" ||
echo "{REFUSED}${{step%=*}}"
count=$((count + 1))
done
echo "{COUNT}$count\""""


def steps_done(text: str) -> int:
    """How far a storm got."""
    found = re.search(rf"^{COUNT}(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
