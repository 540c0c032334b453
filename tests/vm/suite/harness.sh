# SPDX-License-Identifier: GPL-2.0-only
# What `vm/vm run` promises about output, exit status and cleaning up.
exec python3 -B -m unittest discover -v -s vm/harness/tests -t vm -p 'vm_*.py'
