# SPDX-License-Identifier: GPL-2.0-only
"""The gem5 that this directory was written for. SConscript asks when gem5 is built, configs/ when it starts."""

import os
import re

SERIES = "24.0"
ANY = "DRFQ_GEM5_ANY_VERSION"


def version_of(source):
    """The version in the text of gem5's src/base/version.cc; None if it has none."""
    found = re.search(r'gem5Version\s*=\s*"([^"]+)"', source)
    return found and found[1]


def problem(version, environment=os.environ):
    """Why this version is refused and what to do; None if it is not. version: as gem5 gives it, or None."""
    if version is not None and f"{version}.".startswith(f"{SERIES}."):
        return None
    if environment.get(ANY):
        return None
    return (
        f"gem5-backend/gem5 was written for gem5 {SERIES}, and this is gem5 {version or 'of an unknown version'}. "
        f"It uses interfaces of gem5 that change between versions. Build it in gem5 v{SERIES}.0.1, or set {ANY}=1 "
        f"to try this one; then compare ./justw gem5 gem5-matrix with ./justw mc gem5-matrix."
    )
