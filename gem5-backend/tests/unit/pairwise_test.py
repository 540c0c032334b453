#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the design of loads, and of its measure of fairness: pairwise_test.py DRFQ_MC EXPERIMENTS."""

import sys
import unittest

MC, EXPERIMENTS = sys.argv[1:3]
sys.path.insert(0, EXPERIMENTS)
import pairwise  # noqa: E402
import pairwise_gem5  # noqa: E402


def error(rates, weights, strict):
    return pairwise.worst_error(rates, weights, pairwise.levels_of(rates, weights, 0.01), strict)


class Fairness(unittest.TestCase):
    def test_shares_by_weight_have_no_error(self):
        self.assertAlmostEqual(error([1, 2, 4], [1, 2, 4], []), 0)

    def test_one_that_can_use_no_more_has_no_error(self):
        self.assertAlmostEqual(error([1.5, 1.5, 1], [1, 1, 4], [1]), 0)

    def test_one_that_could_use_more_has_an_error(self):
        self.assertAlmostEqual(error([1.5, 1.5, 1], [1, 1, 4], [2]), 1)

    def test_a_winner_by_more_than_a_level_is_an_error_of_the_losers(self):
        self.assertAlmostEqual(error([1, 1, 2], [1, 1, 1], [2.6]), 0.3)

    def test_a_level_that_could_have_its_part_joins_the_next(self):
        rates, weights = [1.02, 1.02, 3.96], [1, 1, 4]
        levels = pairwise.levels_of(rates, weights, 0.01)
        self.assertEqual(levels, [[2], [0, 1]])
        self.assertEqual(pairwise.joined(levels, rates, weights, [4.2]), [[2, 0, 1]])
        self.assertIsNone(pairwise.joined(levels, rates, weights, [3.97]))


class Design(unittest.TestCase):
    def test_60_rows_hold_every_pair_of_settings(self):
        met = set().union(*(pairwise.pairs(row) for row in pairwise.design(60)))
        values = [len(v) for v in pairwise.FACTORS.values()]
        self.assertEqual(len(met), (sum(values) ** 2 - sum(v * v for v in values)) // 2)


ROW = {"agents": 2, "weight": 4, "lines": 32, "entries": 64, "kind": "reads", "device": False}


class Model(unittest.TestCase):
    def error_of(self, policy):
        pairwise.DURATION_MS = 10
        rates = pairwise.measure([MC], ROW, policy, 1)[1]
        return pairwise.max_min_error([MC], ROW, 1, rates)[0]

    def test_lowest_virtual_time_first_is_fair(self):
        self.assertLess(self.error_of("lvtf"), pairwise.quantum(ROW, 4))

    def test_fr_fcfs_ignores_the_weights_and_is_found_unfair(self):
        self.assertGreater(self.error_of("frfcfs"), 0.5)


class OnGem5(unittest.TestCase):
    def test_rows_without_a_difference_between_agents_are_symmetric(self):
        alike = {**ROW, "weight": 1}
        self.assertTrue(pairwise_gem5.is_symmetric(alike))
        self.assertFalse(pairwise_gem5.is_symmetric(ROW))
        self.assertFalse(pairwise_gem5.is_symmetric({**alike, "device": True}))

    def test_the_model_is_compared_by_means_of_draws(self):
        model, gem5 = [[1, 3], [3, 5]], [[2, 2], [2, 6]]
        self.assertEqual(pairwise_gem5.compare(model, gem5), (6, 6, 0, 0))
        self.assertAlmostEqual(pairwise_gem5.compare([[1.1, 3]], [[1, 4]])[3], -25)

    def test_a_row_runs_without_fill_for_the_time_that_was_asked(self):
        text = pairwise_gem5.text_of(ROW, 1, 2)
        self.assertIn("fill = false\n", text)
        self.assertIn("duration_ms = 2\n", text)
        self.assertEqual(len(pairwise_gem5.rates_of(MC, text, ROW["agents"])), ROW["agents"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
