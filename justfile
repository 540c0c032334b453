# SPDX-License-Identifier: GPL-2.0-only
# What one can do with this project; `./justw` gets just itself when it is missing.

set positional-arguments

target := env("CARGO_TARGET_DIR", justfile_directory() / "target")

# List what can be done
default:
    @'{{just_executable()}}' --justfile '{{justfile()}}' --list --unsorted

# Load the scheduler: here as root on a sched_ext kernel, else in a VM with a live table (--help)
run *args: build
    @tools/run "$@"

# Run a command in the VM, in this directory: just vm [OPTIONS] -- CMD ... (vm --help)
[no-cd]
vm *args:
    @'{{justfile_directory()}}/vm/vm' run "$@"

# An interactive shell in the VM: just vm-shell [--kernel NAME] [--cpus N] ...
[no-cd]
vm-shell *args:
    @'{{justfile_directory()}}/vm/vm' shell "$@"

# Install system packages (as root; otherwise print the command) and check the Rust toolchain
setup:
    @tools/setup

# Build the scheduler, the agent and the workloads
build: setup
    cargo build --release --workspace

# All set-up and all tests, on the host and in the VM
test:
    @tools/test

# The tests that need no VM
test-host: test-rust test-cpp test-harness

# Tests of the Rust workspace, the agent's with drfq-mc; just test-rust [CARGO TEST ARGUMENTS]
test-rust *args: setup
    cmake --fresh -S gem5-backend -B '{{target}}/gem5-backend' -G Ninja > /dev/null
    cmake --build '{{target}}/gem5-backend' --target drfq-mc -- -j "$(nproc)"
    cargo test --release --workspace "$@"

# Tests of the memory controller and of the virtual machine's hardware; just test-cpp [CTEST ARGUMENTS]
test-cpp *args: setup
    cmake --fresh -S gem5-backend -B '{{target}}/gem5-backend' -G Ninja
    cmake --build '{{target}}/gem5-backend' -- -j "$(nproc)"
    ctest --test-dir '{{target}}/gem5-backend' --output-on-failure "$@"
    cmake --fresh -S vm -B '{{target}}/machine' -G Ninja
    cmake --build '{{target}}/machine' -- -j "$(nproc)"
    ctest --test-dir '{{target}}/machine' --output-on-failure "$@"

# Build drfq-mc; with an experiment, run it: just mc [OPTIONS] EXPERIMENT (a file, or a name in gem5-backend/experiments)
[no-cd]
mc *args:
    @'{{justfile_directory()}}/gem5-backend/mc' '{{target}}/gem5-backend' "$@"

# Run an experiment on gem5, or serve the controller's protocol from it; needs DRFQ_GEM5 (just gem5 --help)
[no-cd]
gem5 *args:
    @'{{justfile_directory()}}/gem5-backend/gem5/run' '{{target}}/gem5-backend' "$@"

# Unit tests of the VM harness
test-harness:
    python3 -B -m unittest discover -s vm/harness/tests -t vm

# Tests that boot VMs: the harness itself, the modelled machine, then the scheduler
test-vm: build
    python3 -B -m unittest discover -v -s vm/harness/tests -t vm -p 'vm_*.py'
    tests/hardware/run resctrl mbm counters stat multiplex ratios contention mba cat scheduler registers
    tests/vm/run

# Benchmarks side by side with EEVDF and scx_rusty, in one VM (--help)
bench *args: build
    tests/vm/bench "$@"

# Write the tables of docs/results from its rows; --check, --stale, --add FILE (--help)
results *args:
    @tools/results "$@"

# Check formatting and lints of every language; warnings are errors
lint: setup
    @tools/lint

# Format every language
fmt: setup
    cargo fmt --all
    clang-format-19 -i bpf/*.[ch]
    git ls-files -z 'gem5-backend/*.cc' 'gem5-backend/*.hh' 'gem5-backend/*.h' 'vm/*.cc' 'vm/*.hh' 'vm/*.h' 'vm/*.c' | xargs -0 clang-format-19 -i

# Remove what was built (the cache of kernels and tools stays)
clean:
    cargo clean
