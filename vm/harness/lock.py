# SPDX-License-Identifier: GPL-2.0-only
"""The committed list of kernels, and the choice of a replacement. Pure: no file or network access.

One line per package: `NAME SUITE RELEASE PACKAGE VERSION SHA256`; `#` starts a comment.
"""

import dataclasses
import re
from collections.abc import Iterable

# The general flavour: the guest mounts the host's files by 9p, which the smaller cloud flavour lacks.
FLAVOUR = "amd64"
_RELEASE = re.compile(r"(\d+(?:\.\d+)+)[^-]*-" + FLAVOUR)
_IMAGE = "linux-image-"


@dataclasses.dataclass(frozen=True)
class Package:
    """One Debian package, as the mirror's index names it."""

    suite: str
    name: str
    version: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One bootable kernel: its release (`uname -r`) and the packages that hold it."""

    release: str
    suite: str
    packages: tuple[Package, ...]

    @property
    def number(self) -> tuple[int, ...]:
        """The upstream version as integers, for comparison."""
        return number(self.release)


@dataclasses.dataclass(frozen=True)
class Range:
    """Kernels of `suite` with `low <= version < high`."""

    suite: str
    low: tuple[int, ...]
    high: tuple[int, ...] = (1000,)

    def holds(self, kernel: Kernel) -> bool:
        """Whether the kernel belongs to this range."""
        return kernel.suite == self.suite and self.low <= kernel.number < self.high


@dataclasses.dataclass(frozen=True)
class Alias:
    """What a name stands for: a kernel of one of `ranges`, the one with the highest version if `highest`."""

    name: str
    ranges: tuple[Range, ...]
    meaning: str
    highest: bool = False


# 7.1 and 7.2 of trixie-backports carry malformed kfunc prototypes in their BTF (pahole 1.30); 7.2 of sid does not.
ALIASES = {
    alias.name: alias
    for alias in (
        Alias("oldest", (Range("trixie-backports", (6, 16), (7, 1)),), "oldest kernel with sched_ext that works"),
        Alias(
            "newest",
            (Range("trixie-backports", (7, 3)), Range("sid", (7, 2))),
            "newest kernel that works",
            highest=True,
        ),
        Alias("no-scx", (Range("trixie", (6, 12), (6, 13)),), "built without sched_ext"),
        Alias("bad-btf", (Range("trixie-backports", (7, 1), (7, 3)),), "malformed kfunc prototypes in its BTF"),
    )
}
SUITES = ("trixie", "trixie-backports", "sid")


def number(release: str) -> tuple[int, ...]:
    """The leading version number of a release string: `6.16.12+deb13-amd64` is (6, 16, 12)."""
    match = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def version(release: str) -> str:
    """The leading version number of a release string, as text."""
    return ".".join(map(str, number(release)))


def is_release(text: str) -> bool:
    """Whether the text is a release of the flavour that the VM boots."""
    return _RELEASE.fullmatch(text) is not None


def parse(text: str) -> dict[str, Kernel]:
    """Reads a lock file; raises ValueError with the line's number when one is malformed."""
    found: dict[str, list[tuple[str, str, Package]]] = {}
    for index, line in enumerate(text.splitlines(), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        if len(fields) != 6:
            raise ValueError(f"line {index}: expected 6 fields, found {len(fields)}")
        alias, suite, release, name, package_version, sha256 = fields
        found.setdefault(alias, []).append((release, suite, Package(suite, name, package_version, sha256)))
    kernels = {}
    for alias, rows in found.items():
        if len({(release, suite) for release, suite, _ in rows}) != 1:
            raise ValueError(f"{alias}: names more than one kernel")
        kernels[alias] = Kernel(rows[0][0], rows[0][1], tuple(package for _, _, package in rows))
    return kernels


def render(kernels: dict[str, Kernel]) -> str:
    """The lock file's text for these kernels."""
    lines = [
        "# SPDX-License-Identifier: GPL-2.0-only",
        "# Written by `vm/vm lock`. NAME SUITE RELEASE PACKAGE VERSION SHA256",
    ]
    for alias, kernel in kernels.items():
        for package in kernel.packages:
            lines.append(f"{alias} {kernel.suite} {kernel.release} {package.name} {package.version} {package.sha256}")
    return "\n".join(lines) + "\n"


def kernels_of(packages: Iterable[Package]) -> list[Kernel]:
    """Groups an index's packages into kernels.

    Up to 6.18 one `linux-image` package holds everything; since 6.19 it only depends on `linux-binary`,
    `linux-modules` and `linux-base`. A kernel whose set is incomplete cannot boot and is left out.
    """
    by_key = {(package.suite, package.name): package for package in packages}
    kernels = []
    for (suite, name), image in by_key.items():
        release = name.removeprefix(_IMAGE)
        if not name.startswith(_IMAGE) or not is_release(release):
            continue
        split = tuple(by_key.get((suite, f"linux-{part}-{release}")) for part in ("binary", "modules", "base"))
        if split == (None, None, None):
            parts: tuple[Package, ...] = (image,)
        elif None in split:
            continue
        else:
            parts = split
        kernels.append(Kernel(release, suite, parts))
    return kernels


def choose(alias: Alias, wanted: tuple[int, ...], kernels: Iterable[Kernel]) -> Kernel | None:
    """The alias' kernel: the highest one, or the one nearest to `wanted` (the next one up, else the next one down)."""
    usable = sorted(
        (kernel for kernel in kernels if any(part.holds(kernel) for part in alias.ranges)),
        key=lambda kernel: kernel.number,
    )
    if not usable:
        return None
    above = [kernel for kernel in usable if kernel.number >= wanted]
    return above[0] if above and not alias.highest else usable[-1]


def explicit(wanted: str, kernels: Iterable[Kernel]) -> Kernel | None:
    """The kernel whose release or upstream version is `wanted`; the earlier suite of SUITES wins."""
    matches = [kernel for kernel in kernels if wanted in (kernel.release, version(kernel.release))]
    return min(matches, key=lambda kernel: SUITES.index(kernel.suite)) if matches else None
