# SPDX-License-Identifier: GPL-2.0-only
"""Whether code changed after a commit.

Comments, docstrings, blank space outside strings, renames and unit tests at the end of a Rust file are no changes,
because they do not change what runs.
"""

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

# Literals, which stay as they are, or `blank`: comments and blank space. A "//" in a literal is no comment.
C_BLANK = r"(?P<blank>(?:\s+|//[^\n]*|/\*.*?\*/)+)"
CHARACTER = r"'(?:\\.|[^'\\\n])'"
LINE = r'"(?:\\.|[^"\\\n])*"'
LINES = r'"(?:\\.|[^"\\])*"'
C_RAW = r'(?<!\w)(?:u8|[uUL])?R"(?P<raw>[^()\s\\]*)\(.*?\)(?P=raw)"'
RUST_RAW = r'(?<!\w)[bc]?r(?P<raw>#*)".*?"(?P=raw)'
C_TOKENS = re.compile(f"{C_RAW}|{LINE}|{CHARACTER}|{C_BLANK}", re.DOTALL)
RUST_TOKENS = re.compile(f"{RUST_RAW}|{LINES}|{CHARACTER}|{C_BLANK}", re.DOTALL)
# Rust leaves this out of a string.
RUST_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n\s*")
# `#` opens a comment only where a word begins.
SHELL_BLANK = r"(?P<blank>(?:\s+|(?<![^\s;&|()<>])#[^\n]*)+)"
HERE_DOCUMENT = r"(?<!<)<<-?[ \t]*\\?(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?![^\s;&|)<>])[^\n]*\n.*?^\t*(?P=end)$"
SHELL_TOKENS = re.compile(
    rf"\\.|\$'(?:\\.|[^'\\])*'|'[^']*'|{LINES}|{HERE_DOCUMENT}|{SHELL_BLANK}", re.DOTALL | re.MULTILINE
)
# CMake's and pip's.
TEXT_TOKENS = re.compile(rf"{LINES}|{SHELL_BLANK}", re.DOTALL)
RUST_UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{\n(?:\s.*\n|\n)*\}\s*\Z", re.MULTILINE)
TOKENS = dict.fromkeys((".c", ".h", ".cc", ".hh"), C_TOKENS)
TOKENS |= {".rs": RUST_TOKENS, ".sh": SHELL_TOKENS, ".txt": TEXT_TOKENS}


class NoGit(Exception):
    """Git cannot be asked."""


def without_docstrings(text):
    """Python without comments and docstrings; the module's stays if the program prints it. None: it has errors."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, *(() if "__doc__" in text else (ast.Module,)))
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def toml_values(text):
    """What TOML says. None: it has errors."""
    try:
        return repr(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def without_comments(path, text):
    """What of the text runs; all of it where the kind of comment is not known."""
    suffix = Path(path).suffix
    parse = {".py": without_docstrings, ".toml": toml_values}.get(suffix)
    if parse and (code := parse(text)) is not None:
        return code
    if suffix not in TOKENS:
        return text
    if suffix == ".rs":
        text = RUST_UNIT_TESTS.sub("", text)

    def kept(match):
        """What stays of a token."""
        if match["blank"]:
            return " "
        return RUST_CONTINUED.sub(r"\1", match[0]) if suffix == ".rs" else match[0]

    return TOKENS[suffix].sub(kept, text).strip()


def covers(code, path):
    """Whether `path` is part of the code, a list of files and directories; `!` leaves one out."""

    def inside(place):
        return path == place or path.startswith(place.rstrip("/") + "/")

    left_out = any(inside(place[1:]) for place in code if place.startswith("!"))
    return not left_out and any(inside(place) for place in code if not place.startswith("!"))


class Judge:
    """Compares the work tree with commits of its history."""

    def __init__(self, root):
        self.root = root
        self.differences = cache(self.differences)
        self.text_differs = cache(self.text_differs)

    def git(self, *args):
        """Output of a git command."""
        command = ["git", "-C", str(self.root), *args]
        try:
            return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
        except FileNotFoundError:
            raise NoGit("git is not installed; it tells which rows are stale") from None
        except subprocess.CalledProcessError as error:
            raise NoGit(f"{' '.join(command)} failed: {error.stderr.strip()}") from None

    def differences(self, commit):
        """(path in `commit`, path now) of every file that may differ; None and the path of one that is new or gone."""
        try:
            self.git("cat-file", "-e", commit + "^{commit}")
        except NoGit:
            raise NoGit(f"commit {commit} is not in this clone; run: git fetch --unshallow") from None
        try:
            self.git("merge-base", "--is-ancestor", commit, "HEAD")
        except NoGit:
            # Other clones have only what a branch leads to: amended and rebased commits stay behind here.
            raise NoGit(f"commit {commit} is not in the history of HEAD; name the one that replaced it") from None
        fields = self.git("diff", "-M40%", "-l0", "--name-status", "-z", commit).split("\0")
        changed = []
        while fields and fields[0]:
            status, old = fields.pop(0), fields.pop(0)
            new = fields.pop(0) if status[0] in "RC" else old
            if status not in ("R100", "C100"):
                changed.append((None if status[0] in "AD" else old, new))
        return changed

    def text_differs(self, commit, old, new):
        """Whether the file differs in what runs."""
        before = self.git("show", f"{commit}:{old}")
        now = (self.root / new).read_text(errors="replace")
        return without_comments(old, before) != without_comments(new, now)

    def changed(self, commit, code):
        """Files of `code` that changed after `commit`, sorted."""
        return sorted(
            new
            for old, new in self.differences(commit)
            if covers(code, new) and (old is None or self.text_differs(commit, old, new))
        )
