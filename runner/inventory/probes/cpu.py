"""CPUs: how many, which of them containers may use, which model."""

from __future__ import annotations

from dataclasses import dataclass

from runner.models.cpulist import format_cpu_list, parse_cpu_list

SCRIPT = """\
section cpu-count
getconf _NPROCESSORS_ONLN
section cpu-lists
sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
for file in /sys/fs/cgroup/cpuset.cpus.effective /sys/fs/cgroup/cpuset/cpuset.effective_cpus; do
  if [ -r "$file" ]; then cat "$file"; break; fi
done
section cpu-model
grep -m 1 -E '^(model name|Model|cpu model|Hardware)' /proc/cpuinfo
"""


@dataclass(frozen=True)
class Cpus:
    """`count` online CPUs; `allowed` in the kernel's list format."""

    count: int
    allowed: str
    model: str | None


def parse_cpus(count: str, lists: str, model: str) -> Cpus:
    """CPUs from the three sections; `allowed` is what every list that could be read agrees on."""
    online = int(count) if count.strip().isdigit() else 0
    allowed: set[int] | None = None
    for line in lists.splitlines():
        try:
            numbers = set(parse_cpu_list(line))
        except ValueError:
            continue
        if numbers:
            allowed = numbers if allowed is None else allowed & numbers
    name = model.partition(":")[2].strip() or None
    return Cpus(online or len(allowed or ()), format_cpu_list(allowed or ()), name)
