# SPDX-License-Identifier: GPL-2.0-only
"""Weighted max-min fairness."""


def fill(weights: list[float], demands: list[float], amount: float) -> list[float]:
    """What each gets of `amount`; nobody more than its demand."""
    parts, open_ = [0.0] * len(weights), set(range(len(weights)))
    while open_:
        level = (amount - sum(part for load, part in enumerate(parts) if load not in open_)) / sum(
            weights[load] for load in open_
        )
        met = {load for load in open_ if demands[load] <= weights[load] * level}
        for load in met or open_:
            parts[load] = demands[load] if met else weights[load] * level
        open_ -= met or set(open_)
    return parts
