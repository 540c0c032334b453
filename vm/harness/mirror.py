# SPDX-License-Identifier: GPL-2.0-only
"""Packages from the Debian mirror this machine is configured for, through apt itself.

apt runs on a private set of directories in the cache, so the machine's own package lists and sources stay
untouched, while its proxy settings and archive keys apply: apt checks signatures and hashes.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
from typing import List, Sequence

from .common import VmError, cache_root, say
from .lock import FLAVOUR, SUITES, Package


def base_uri() -> str:
    """The base URI of the configured Debian mirror; `DRFQ_DEBIAN_MIRROR` overrides it."""
    own = os.environ.get("DRFQ_DEBIAN_MIRROR")
    if own:
        return own
    try:
        result = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
            check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise VmError(f"cannot ask apt for its Debian mirror ({error}); set DRFQ_DEBIAN_MIRROR to one") from error
    for uri in result.stdout.split():
        path = uri.rstrip("/")
        if "debian" in path and "security" not in path:
            return uri
    raise VmError("apt is configured for no Debian mirror; set DRFQ_DEBIAN_MIRROR to the base URI of one")


def _apt_dir() -> pathlib.Path:
    return cache_root() / "apt"


def _apt(command: str, *arguments: str) -> List[str]:
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


def _run(command: List[str], what: str, **kwargs) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **kwargs)
    except (OSError, subprocess.CalledProcessError) as error:
        raise VmError(f"{what} failed ({error}); see apt's messages above") from error


def update() -> None:
    """Refreshes the private package index of the suites in SUITES."""
    root = _apt_dir()
    for name in ("state/lists/partial", "cache/archives/partial"):
        (root / name).mkdir(parents=True, exist_ok=True)
    uri = base_uri()
    (root / "status").touch()
    (root / "sources.list").write_text("".join(f"deb {uri} {suite} main\n" for suite in SUITES), encoding="utf-8")
    say("reading the package index of the Debian mirror")
    # 2: apt's report is not the output of this command.
    _run(_apt("apt-get", "update", "-q", "--error-on=any"), "apt-get update", stdout=2)


def kernel_packages() -> List[Package]:
    """All packages of the cloud flavour in the private index."""
    targets = _run(_apt("apt-get", "indextargets", "--format", "$(CODENAME) $(RELEASE) $(FILENAME)",
                        "Created-By: Packages"), "apt-get indextargets", capture_output=True, text=True).stdout
    packages = []
    for line in targets.splitlines():
        codename, release, filename = line.split(" ", 2)
        suite = release if release in SUITES else codename
        text = _run(_apt("/usr/lib/apt/apt-helper", "cat-file", filename), "reading the package index",
                    capture_output=True, text=True).stdout
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


def download_with_dependencies(suite: str, names: Sequence[str]) -> List[pathlib.Path]:
    """The named packages of a suite and all that they depend on, as files in the private cache (apt checks them)."""
    archives = _apt_dir() / "cache" / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    (archives / "partial").mkdir(parents=True)
    _run(_apt("apt-get", "install", "-q", "-y", "--no-install-recommends", "--download-only", "-t", suite, *names),
         "the download", stdout=2)
    return sorted(archives.glob("*.deb"))


def download(package: Package, into: pathlib.Path) -> pathlib.Path:
    """Downloads one package (resuming a partial one) and checks it against its recorded hash."""
    say(f"downloading {package.name} {package.version}")
    own = into / package.sha256
    own.mkdir(exist_ok=True)
    _run(_apt("apt-get", "download", "-q", f"{package.name}={package.version}"), "the download", cwd=own, stdout=2)
    found = list(own.glob("*.deb"))
    if len(found) != 1:
        raise VmError(f"the download of {package.name} left no file; run it again")
    path = found[0]
    if sha256(path) != package.sha256:
        path.unlink()
        raise VmError(f"{package.name} {package.version}: the mirror's file does not have the recorded SHA256")
    return path
