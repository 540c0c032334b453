# SPDX-License-Identifier: GPL-2.0-only
# The commands of this project; `./justw` installs just when it is missing.

set positional-arguments

cache := env("DRFQ_CACHE", env("XDG_CACHE_HOME", env("HOME") / ".cache") / "scx_drfq")
target := env("CARGO_TARGET_DIR", justfile_directory() / "target")

# List the commands
default:
    @'{{just_executable()}}' --justfile '{{justfile()}}' --list --unsorted

# Load the scheduler: here as root on a sched_ext kernel, else in a VM with a live table (--help)
[no-exit-message]
run *args:
    @tools/run "$@"

# Check what changed, in seconds: formats, lints, unit tests; just check --all for everything
[no-exit-message]
check *args:
    @tools/check "$@"

# Run a command in the VM, in this directory: just vm [OPTIONS] -- CMD ... (vm --help)
[no-cd]
vm *args:
    @'{{justfile_directory()}}/vm/vm' run "$@"

# An interactive shell in the VM: just vm-shell [--kernel NAME] [--cpus N] ...
[no-cd]
vm-shell *args:
    @'{{justfile_directory()}}/vm/vm' shell "$@"

# Install system packages (as root; otherwise print the command) and check the Rust toolchain
[no-exit-message]
setup *args:
    @tools/setup "$@"

# Build the scheduler, the agent and the workloads, optimised
build: setup
    cargo build --release --workspace

# Set up everything and run all tests, on the host and in VMs
[no-exit-message]
test:
    @tools/test

# The long forms of VM tests, fuzzers, experiments and the reference, which take hours; just test-long [NAME ...]
[no-exit-message]
test-long *args: setup
    tests/vm/run --long "${@:-all}"
    [ "$#" -gt 0 ] || tests/hardware/run --long
    [ "$#" -gt 0 ] || tests/fuzz/run all 600
    [ "$#" -gt 0 ] || ./justw test-dramsim
    tools/build-cpp gem5-backend --target drfq-mc
    [ "$#" -gt 0 ] || for name in set-1 weighted weighted-one-line; do ./justw mc --check "$name" || exit; done
    [ "$#" -gt 0 ] || gem5-backend/tests/reference/compare.py '{{target}}/gem5-backend/drfq-mc' 5000

# The tests that need no VM
test-host: test-rust test-cpp test-python

# Tests of the Rust workspace; some run drfq-mc, which is built first; just test-rust [CARGO TEST ARGUMENTS]
test-rust *args: setup
    tools/build-cpp gem5-backend --target drfq-mc
    cargo test --workspace --exclude drfq_dramsim "$@"

# Lints and tests of the memory controller's DRAM beside DRAMsim3, which takes a minute to build
test-dramsim *args: setup
    tools/build-cpp gem5-backend --target drfq-mc
    cargo clippy -p drfq_dramsim --all-targets --quiet -- -D warnings
    cargo test -p drfq_dramsim "$@"

# Tests of the memory controller and of the virtual machine's hardware; just test-cpp [CTEST ARGUMENTS]
test-cpp *args: setup
    tools/build-cpp gem5-backend
    ctest --test-dir '{{target}}/gem5-backend' --output-on-failure "$@"
    tools/build-cpp vm
    ctest --test-dir '{{cache}}/machine' --output-on-failure "$@"

# Build drfq-mc, or run an experiment with it; just mc [OPTIONS] EXPERIMENT (--help)
[no-cd]
mc *args:
    @'{{justfile_directory()}}/gem5-backend/mc' '{{target}}/gem5-backend' "$@"

# Run a set of benchmarks of the thesis: its figures beside ours; just set N --on model|machine (--help)
[no-exit-message]
set *args:
    @tools/set "$@"

# Run an experiment on gem5, or serve the controller's protocol from it; needs DRFQ_GEM5 (just gem5 --help)
[no-cd]
gem5 *args:
    @'{{justfile_directory()}}/gem5-backend/gem5/run' '{{target}}/gem5-backend' "$@"

# Unit tests of the VM harness and of the tables of results, and whether the mutations still fit bpf/
test-python:
    tests/sim/mutate --check
    python3 -B -m unittest discover -s vm/harness/tests -t vm
    python3 -B -m unittest discover -s tools/measurements/tests -t tools

# Tests in VMs, three at a time: the harness, the modelled machine, the scheduler; just test-vm [NAME ...]
test-vm *args: setup
    tests/vm/run --jobs 3 "$@"

# Benchmarks side by side with EEVDF and scx_rusty, in one VM (--help)
bench *args: setup
    tests/vm/bench "$@"

# Write the tables of docs/results from the rows of docs/results/data; --check, --stale, --add FILE (--help)
results *args:
    @tools/results "$@"

# Write the generated parts of docs/reference from the programs; --check (--help)
reference *args:
    @tools/reference "$@"

# Check formatting and lints of every language; warnings are errors; just lint [FILE ...]
[no-exit-message]
lint *args: setup
    @tools/lint "$@"

# Format every language and mend what the linters can mend; just fmt [FILE ...]
[no-exit-message]
fmt *args: setup
    @tools/lint --fix "$@"

# Remove what was built (the cache of kernels and tools stays)
clean:
    cargo clean
