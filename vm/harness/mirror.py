# SPDX-License-Identifier: GPL-2.0-only
"""Packages from the Debian mirror this machine is configured for, through apt itself.

apt runs on a private set of directories in the cache, so the machine's package lists and sources stay untouched. Its
proxy settings and archive keys apply, and apt checks signatures and hashes.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from .common import Progress, VmError, cache_root, locked, say
from .lock import FLAVOUR, SUITES, Package


def base_uri() -> str:
    """The base URI of the configured Debian mirror; `DRFQ_DEBIAN_MIRROR` overrides it."""
    own = os.environ.get("DRFQ_DEBIAN_MIRROR")
    if own:
        return own
    try:
        result = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise VmError(f"cannot ask apt for its Debian mirror ({error}); set DRFQ_DEBIAN_MIRROR to one") from error
    for uri in result.stdout.split():
        path = uri.rstrip("/")
        if "debian" in path and "security" not in path:
            return uri
    raise VmError("apt is configured for no Debian mirror; set DRFQ_DEBIAN_MIRROR to the base URI of one")


def _apt_dir() -> pathlib.Path:
    return cache_root() / "apt"


def _apt(command: str, *arguments: str) -> list[str]:
    """The command line of an apt tool that works on the private directories only."""
    root = _apt_dir()
    options = {
        "Dir::Etc::SourceList": root / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": root / "state",
        "Dir::State::Status": root / "status",
        "Dir::Cache": root / "cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "APT::Architecture": "amd64",
        # The cache may lie in a home directory that apt's own unprivileged user cannot enter.
        "APT::Sandbox::User": "root",
    }
    flat = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    return [command, *flat, *arguments]


def _read(command: list[str], what: str) -> str:
    """What a command prints."""
    try:
        return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise VmError(f"{what} failed ({error}); see apt's messages above") from error


def _fetch(command: list[str], what: str, cwd: pathlib.Path) -> None:
    """Runs an apt command that downloads, telling how far it is; shows apt's messages only if it fails."""
    progress = Progress()
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as messages, open(read_end, encoding="utf-8", errors="replace") as status_lines:
        process = subprocess.Popen(
            [*command, "-o", f"APT::Status-Fd={write_end}"],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=messages,
            stderr=subprocess.STDOUT,
            pass_fds=[write_end],
        )
        os.close(write_end)
        for line in status_lines:
            # dlstatus:FILES:PERCENT:TEXT
            fields = line.split(":", 3)
            if fields[0] == "dlstatus":
                progress.tell(f"{what}: {float(fields[2]):.0f} %")
        if process.wait() == 0:
            return
        messages.seek(0)
        for line in messages.read().decode(errors="replace").splitlines()[-10:]:
            say(f"apt: {line}")
    raise VmError(f"{what} failed; see apt's messages above, and check the network and the mirror")


def _signed_by() -> str:
    """The option of a source that names Debian's keys, which other distributions trust for no source of their own.
    Empty without these keys."""
    debians = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if not debians.exists():
        return ""
    # A mirror within an organisation may have a key of its own.
    trusted = sorted(
        path for path in pathlib.Path("/etc/apt/trusted.gpg.d").glob("*") if path.suffix in (".gpg", ".asc")
    )
    return f"[signed-by={','.join(map(str, [debians, *trusted]))}] "


@contextlib.contextmanager
def index_of(suites: Iterable[str]) -> Iterator[None]:
    """Refreshes the private package index, which then covers these suites; downloads must happen within.

    One process at a time: apt's own locks fail instead of waiting."""
    root = _apt_dir()
    with locked("package index"):
        for name in ("state/lists/partial", "cache/archives/partial"):
            (root / name).mkdir(parents=True, exist_ok=True)
        uri = base_uri()
        (root / "status").touch()
        options = _signed_by()
        (root / "sources.list").write_text(
            "".join(f"deb {options}{uri} {suite} main\n" for suite in SUITES if suite in suites), encoding="utf-8"
        )
        _fetch(_apt("apt-get", "update", "--error-on=any"), "reading the package index of the Debian mirror", root)
        yield


def kernel_packages() -> list[Package]:
    """The kernel packages in the private index."""
    targets = _read(
        _apt("apt-get", "indextargets", "--format", "$(CODENAME) $(RELEASE) $(FILENAME)", "Created-By: Packages"),
        "apt-get indextargets",
    )
    packages = []
    for line in targets.splitlines():
        codename, release, filename = line.split(" ", 2)
        suite = release if release in SUITES else codename
        text = _read(_apt("/usr/lib/apt/apt-helper", "cat-file", filename), "reading the package index")
        for stanza in text.split("\n\n"):
            if stanza.startswith("Package: linux-"):
                fields = dict(row.split(": ", 1) for row in stanza.splitlines() if ": " in row[:60])
                if fields["Package"].endswith("-" + FLAVOUR):
                    packages.append(Package(suite, fields["Package"], fields["Version"], fields["SHA256"]))
    return packages


def sha256(path: pathlib.Path) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def download_with_dependencies(suite: str, names: Sequence[str], what: str) -> list[pathlib.Path]:
    """The named packages of a suite and all that they depend on, as files in the private cache (apt checks them)."""
    archives = _apt_dir() / "cache" / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    _fetch(
        _apt("apt-get", "install", "-y", "--no-install-recommends", "--download-only", "-t", suite, *names),
        f"downloading {what}",
        archives,
    )
    return sorted(archives.glob("*.deb"))


def download(package: Package, into: pathlib.Path) -> pathlib.Path:
    """Downloads one package (resuming a partial one) and checks it against its recorded hash."""
    own = into / package.sha256
    own.mkdir(exist_ok=True)
    _fetch(_apt("apt-get", "download", f"{package.name}={package.version}"), f"downloading {package.name}", own)
    found = list(own.glob("*.deb"))
    if len(found) != 1:
        raise VmError(f"the download of {package.name} left no file; run it again")
    path = found[0]
    if sha256(path) != package.sha256:
        path.unlink()
        raise VmError(
            f"{package.name} {package.version}: the mirror's file does not have the recorded SHA256; run it again"
        )
    return path
