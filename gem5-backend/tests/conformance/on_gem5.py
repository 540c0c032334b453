#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs the conformance suite on gem5: usage: on_gem5.py DRFQ_MC. Skipped (status 77) while DRFQ_GEM5 is not set."""

import os
import shlex
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
gem5 = os.environ.get("DRFQ_GEM5")
if not gem5:
    print("skipped: DRFQ_GEM5 is not set (gem5-backend/gem5/README.md)")
    sys.exit(77)
memory = subprocess.run([sys.argv[1], "memory"], check=True, capture_output=True, text=True).stdout.strip()
with tempfile.TemporaryDirectory() as out:
    serve = os.path.join(here, "..", "..", "gem5", "configs", "serve.py")
    command = [gem5, "-d", out, serve, "--socket", "{socket}", memory]
    environment = {**os.environ, "DRFQ_SERVER": shlex.join(command)}
    sys.exit(
        subprocess.run([sys.executable, os.path.join(here, "conformance.py")], env=environment, check=False).returncode
    )
