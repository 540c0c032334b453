# SPDX-License-Identifier: GPL-2.0-only
"""Tests of what counts as code in each language, and what as comment."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from measurements.staleness import without_comments

# By file name: texts that run alike, and pairs of texts that do not.
ALIKE = {
    "a.rs": ('f("//x \\\n  y"); // y\n', ' f("//x \\\n    y"); /* z\n */'),
    "a.c": ("f('\"'); // \"\ng();", "f('\"');\n\tg();"),
    "a.toml": ('a = "#x" # y\nb = 1\n', '# z\n\na   = "#x"\nb = 1\n'),
    "a.sh": ("a=${x#y} # it's\nb 'c'\n", "# d\na=${x#y}\n\tb 'c'"),
    "CMakeLists.txt": ("a(b)# it's\nc()\n", "# don't\n a(b)\nc()\n"),
    "a.py": ('def f():\n    """A."""\n    return 1  # x\n', "def f():\n    return 1\n"),
}
DIFFERENT = (
    ("a.rs", 'f("\n // x\n");', 'f("\n // y\n");'),
    ("a.rs", 'f("a\n  b");', 'f("a\n b");'),
    ("a.rs", 'f(r#"a " // x\n"#);', 'f(r#"a " // y\n"#);'),
    ("a.rs", 'f(\'"\', "// x");', 'f(\'"\', "// y");'),
    ("a.cc", 'f(R"x(" // x\n)x");', 'f(R"x(" // y\n)x");'),
    ("a.c", 'f("a  b");', 'f("a b");'),
    ("a.toml", 'a = """\n# x\n"""', 'a = """\n# y\n"""'),
    ("a.toml", "a = '''\nit's # x\n'''", "a = '''\nit's # y\n'''"),
    ("a.toml", 'a = "\'" # "\nb = "#x"', 'a = "\'" # "\nb = "#y"'),
    ("a.toml", "a = [", "a = [ # x"),
    ("a.sh", "a=${x#y}", "a=${x#z}"),
    ("a.sh", "a=${#x[@]}", "a=${#y[@]}"),
    ("a.sh", "a x#y", "a x#z"),
    ("a.sh", "a \\# x", "a \\# y"),
    ("a.sh", "awk '\n # x\n'", "awk '\n # y\n'"),
    ("a.sh", 'a "\n # x\n"', 'a "\n # y\n"'),
    ("a.sh", "a $'it\\'s' # x'\nb ' # x'", "a $'it\\'s' # x'\nb ' # y'"),
    ("a.sh", "cat << 'E'\n# it's x\nE\n", "cat << 'E'\n# it's y\nE\n"),
    ("a.sh", "cat <<- E | b\n\t# x\n\tE\n", "cat <<- E | b\n\t# y\n\tE\n"),
    ("CMakeLists.txt", 'a("\n# x\n")', 'a("\n# y\n")'),
    ("a.py", 'f("""\n# x\n""")', 'f("""\n# y\n""")'),
)


class CommentTests(unittest.TestCase):
    def test_comments_and_blank_space_are_no_code(self):
        for path, texts in ALIKE.items():
            with self.subTest(path):
                self.assertEqual(*(without_comments(path, text) for text in texts))

    def test_strings_and_other_uses_of_comment_signs_are_code(self):
        for path, before, after in DIFFERENT:
            with self.subTest(path, before=before):
                self.assertNotEqual(without_comments(path, before), without_comments(path, after))


if __name__ == "__main__":
    unittest.main()
