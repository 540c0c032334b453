# SPDX-License-Identifier: GPL-2.0-only
"""The choice of kernels."""

import pathlib
import unittest

from harness import kernels, lock

SUM = "0" * 64


def package(suite: str, name: str) -> lock.Package:
    return lock.Package(suite, name, "1", SUM)


def whole(suite: str, version: str) -> lock.Kernel:
    release = f"{version}+deb13-{lock.FLAVOUR}"
    return lock.Kernel(release, suite, (package(suite, f"linux-image-{release}"),))


class Lock(unittest.TestCase):
    def test_what_is_rendered_parses_back(self):
        chosen = {"oldest": whole("trixie-backports", "6.16.12"), "newest": whole("sid", "7.2.13")}
        self.assertEqual(lock.parse(lock.render(chosen)), chosen)

    def test_a_malformed_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "line 2: expected 6 fields, found 2"):
            lock.parse("# comment\noldest sid\n")

    def test_an_alias_with_two_kernels_is_refused(self):
        rows = "".join(f"oldest sid {release} p 1 {SUM}\n" for release in ("6.1", "6.2"))
        with self.assertRaisesRegex(ValueError, "oldest: names more than one kernel"):
            lock.parse(rows)

    def test_the_committed_file_holds_every_alias(self):
        self.assertEqual(set(kernels.read_lock()), set(lock.ALIASES))

    def test_the_committed_file_is_in_the_form_that_the_harness_writes(self):
        text = pathlib.Path(kernels.LOCK_FILE).read_text(encoding="utf-8")
        self.assertEqual(lock.render(lock.parse(text)), text)


class KernelsOfAnIndex(unittest.TestCase):
    def test_one_image_package_is_a_kernel(self):
        kernel = whole("trixie", "6.12.9")
        self.assertEqual(lock.kernels_of(kernel.packages), [kernel])

    def test_a_split_kernel_needs_all_its_parts(self):
        release = f"7.2.1+deb14-{lock.FLAVOUR}"
        parts = [package("sid", f"linux-{part}-{release}") for part in ("image", "binary", "modules", "base")]
        self.assertEqual(
            [p.name.split("-")[1] for p in lock.kernels_of(parts)[0].packages], ["binary", "modules", "base"]
        )
        self.assertEqual(lock.kernels_of(parts[:2]), [])

    def test_parts_of_another_suite_do_not_count(self):
        release = f"7.2.1+deb14-{lock.FLAVOUR}"
        parts = [
            package("sid", f"linux-image-{release}"),
            package("sid", f"linux-binary-{release}"),
            package("trixie", f"linux-modules-{release}"),
            package("sid", f"linux-base-{release}"),
        ]
        self.assertEqual(lock.kernels_of(parts), [])

    def test_debug_and_unsigned_packages_and_other_flavours_are_no_kernels(self):
        names = [
            f"linux-image-6.12.9+deb13-{kind}" for kind in ("amd64-dbg", "amd64-unsigned", "cloud-amd64", "rt-amd64")
        ]
        self.assertEqual(lock.kernels_of([package("trixie", name) for name in names]), [])


class Choice(unittest.TestCase):
    oldest = lock.ALIASES["oldest"]
    newest = lock.ALIASES["newest"]

    def test_the_next_one_up_is_preferred(self):
        offered = [whole("trixie-backports", v) for v in ("6.16.3", "6.17.8", "6.18.15")]
        self.assertEqual(lock.choose(self.oldest, (6, 16, 12), offered), offered[1])

    def test_the_next_one_down_when_there_is_none_up(self):
        offered = [whole("trixie-backports", v) for v in ("6.16.3", "6.16.7")]
        self.assertEqual(lock.choose(self.oldest, (6, 16, 12), offered), offered[1])

    def test_numbers_are_compared_not_text(self):
        offered = [whole("trixie-backports", v) for v in ("6.18.9", "6.18.15")]
        self.assertEqual(lock.choose(self.oldest, (6, 18, 10), offered), offered[1])

    def test_newest_is_the_highest_of_its_ranges_whatever_was_wanted(self):
        offered = [whole("sid", "7.2.13"), whole("trixie-backports", "7.3.4"), whole("trixie-backports", "7.3.1")]
        self.assertEqual(lock.choose(self.newest, (7, 2, 13), offered), offered[1])

    def test_kernels_outside_the_ranges_are_never_chosen(self):
        offered = [whole("trixie-backports", "7.1.3"), whole("sid", "6.17.1"), whole("trixie", "6.12.9")]
        self.assertIsNone(lock.choose(self.oldest, (6, 16, 12), offered))
        self.assertIsNone(lock.choose(self.newest, (7, 2), [whole("trixie-backports", "7.2.12")]))

    def test_explicit_by_version_or_release(self):
        kernel = whole("trixie-backports", "6.17.8")
        offered = [whole("sid", "6.17.8"), kernel]
        self.assertEqual(lock.explicit("6.17.8", offered), kernel)
        self.assertEqual(lock.explicit(kernel.release, [kernel]), kernel)
        self.assertIsNone(lock.explicit("6.17", offered))


if __name__ == "__main__":
    unittest.main()
