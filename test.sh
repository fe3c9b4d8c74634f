#!/usr/bin/env bash
# Runs all checks of this repository, on a fresh machine too.
#
# To add a step, write a function step_NAME and a line in STEPS; requirements beyond Rust and a C compiler
# go into need_NAME. A step fails by a non-zero exit status and is skipped by calling `skip REASON`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/install.sh
source scripts/install.sh

NEXTEST_VERSION=0.9.143
DENY_VERSION=0.20.2
CARGO_FUZZ_VERSION=0.13.2
FUZZ_SECONDS=${FUZZ_SECONDS:-20}
FAULT_ROUNDS=${FAULT_ROUNDS:-10}

# Name and description, in execution order.
STEPS=(
  "fmt|formatting"
  "clippy|lints, without warnings"
  "default|the default build, which has no AWS support, compiles"
  "doc|documentation builds, without warnings"
  "test|unit, store, end-to-end and tidy tests, fuzz seeds"
  "doctest|examples in the documentation"
  "deny|licenses, bans and sources of dependencies"
  "fuzz|fuzz targets, for a limited time"
)

usage() {
  cat <<'USAGE'
Usage: ./test.sh [--only STEP[,STEP]] [--fuzz SECONDS] [--faults ROUNDS]

Installs what the tests need, runs every step and prints a summary. Exits 0 only if no step
failed. The first run builds a few tools and takes longer.

  --only STEP[,STEP]  run only these steps
  --fuzz SECONDS      time for each fuzz target (default 20, or $FUZZ_SECONDS)
  --faults ROUNDS     number of times each store is killed (default 10, or $FAULT_ROUNDS)
  --help              show this text

Steps:
USAGE
  local step
  for step in "${STEPS[@]}"; do printf '  %-8s  %s\n' "${step%%|*}" "${step#*|}"; done
}

# --- steps -----------------------------------------------------------------------

# The fuzz crate is a separate workspace; everything except the fuzzing itself works on stable, without
# the C++ fuzzer.
stable_fuzz() {
  local verb=$1
  shift
  CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} \
    cargo "$verb" --locked --manifest-path fuzz/Cargo.toml --no-default-features "$@"
}

step_fmt() {
  cargo fmt --all --check
  # Not --all, which would include the crates checked above.
  cargo fmt --manifest-path fuzz/Cargo.toml --check
}

step_clippy() {
  cargo clippy --locked --workspace --all-targets --features aws -- -D warnings
  stable_fuzz clippy --all-targets -- -D warnings
}

# All other steps build with every feature.
step_default() { cargo clippy --locked --package interzone-cli -- -D warnings; }

step_doc() { RUSTDOCFLAGS=-Dwarnings cargo doc --locked --workspace --features aws --no-deps; }

# Starts a private PostgreSQL server, which is stopped when this shell exits, and uses the browser and the
# third-party programs installed below the target folder. Both test runs are executed, and either one fails
# the step: one failure must not hide others.
step_test() {
  local rc=0
  scripts/postgres.sh start >"$SCRATCH/postgres"
  # shellcheck source=/dev/null
  source "$SCRATCH/postgres"
  scripts/peers.sh env >"$SCRATCH/peers"
  scripts/browser.sh env >>"$SCRATCH/peers"
  # shellcheck source=/dev/null
  source "$SCRATCH/peers"
  trap 'scripts/postgres.sh stop' EXIT
  INTERZONE_FAULT_ROUNDS=$FAULT_ROUNDS cargo nextest run --locked --workspace --features aws || rc=$?
  echo "--- fuzz seeds"
  stable_fuzz test --lib || rc=$?
  return "$rc"
}

step_doctest() { cargo test --locked --workspace --features aws --doc; }

# Advisories are not checked: they have to be downloaded, and a test must not depend on their current state.
# deny.toml may allow a crate that is not used yet, so unused wrappers are allowed.
step_deny() { cargo deny --locked check --allow unused-wrapper licenses bans sources; }

step_fuzz() {
  [[ -f fuzz/Cargo.toml ]] || skip "no fuzz/Cargo.toml"
  cargo +nightly --version >/dev/null 2>&1 ||
    skip "no nightly toolchain; run 'rustup toolchain install nightly'"
  cargo fuzz --version >/dev/null 2>&1 || skip "cargo-fuzz could not be installed, see above"

  local names target corpus crashed=()
  names=$(cargo +nightly fuzz list)
  [[ -n $names ]] || { echo "fuzz/Cargo.toml lists no target"; return 1; }
  cargo +nightly fuzz build
  for target in $names; do
    echo "--- $target for $FUZZ_SECONDS s"
    # The first folder is written to, the second contains the seeds in the repository.
    corpus=("fuzz/corpus/$target")
    mkdir -p "${corpus[0]}"
    [[ ! -d fuzz/seeds/$target ]] || corpus+=("fuzz/seeds/$target")
    cargo +nightly fuzz run "$target" "${corpus[@]}" -- \
      -dict=fuzz/json.dict -max_total_time="$FUZZ_SECONDS" -timeout=10 -verbosity=0 -print_final_stats=1 ||
      crashed+=("$target")
  done
  [[ ${#crashed[@]} -eq 0 ]] || { echo "crashed: ${crashed[*]}"; return 1; }
}

# --- requirements of each step -------------------------------------------------------

need_fmt() { component rustfmt; }
need_clippy() { component clippy; }
need_default() { component clippy; }
need_test() {
  cargo_tool nextest "$NEXTEST_VERSION"
  postgres
  python_runtime
  node_runtime
  curl_program
  strace_program
  scripts/peers.sh install
  scripts/browser.sh install
}
need_deny() { cargo_tool deny "$DENY_VERSION"; }

# Fuzzing needs a nightly compiler, which is not installed automatically; so its tool is optional as well,
# and the step is reported as skipped.
need_fuzz() {
  [[ -f fuzz/Cargo.toml ]] && cargo +nightly --version >/dev/null 2>&1 || return 0
  cargo_tool fuzz "$CARGO_FUZZ_VERSION" || echo "cargo-fuzz cannot be installed: continuing without it"
}

# --- running and reporting -----------------------------------------------------------------------

skip() {
  echo "SKIPPED: $1"
  echo "$1" >"$SCRATCH/skipped"
  exit 77
}

heading() { printf '\n%s=== %s%s\n' "$BOLD" "$1" "$PLAIN"; }

bad_usage() {
  echo "test.sh: $1; try --help" >&2
  exit 2
}

# run_apart FUNCTION: runs it in a subshell, which the first failing command ends. The shell ignores
# `set -e` wherever a status is tested, so the status is stored in RC instead.
run_apart() {
  set +e
  (
    set -e
    "$1"
  )
  RC=$?
  set -e
}

install_needs() {
  local name
  command -v cargo >/dev/null || {
    echo "cargo is missing: install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer"
    return 1
  }
  compiler
  for name in "${SELECTED[@]}"; do
    if declare -F "need_$name" >/dev/null; then "need_$name"; fi
  done
}

ROWS=() FAILED=() SKIPPED=()

run_step() {
  local name=$1 title=$2 began=$SECONDS result
  heading "$name: $title"
  rm -f "$SCRATCH/skipped"
  run_apart "step_$name"
  if [[ $RC -eq 77 && -f $SCRATCH/skipped ]]; then
    result="skipped: $(<"$SCRATCH/skipped")"
    SKIPPED+=("$name")
  elif [[ $RC -eq 0 ]]; then
    result=passed
  else
    result="${RED}FAILED${PLAIN} (exit $RC)"
    FAILED+=("$name")
  fi
  ROWS+=("$(printf '%-9s %6d s  %s' "$name" $((SECONDS - began)) "$result")")
}

summary() {
  local took="$((SECONDS / 60)) min $((SECONDS % 60)) s"
  heading "summary"
  printf '%-9s %8s  %s\n' step time result
  printf '%s\n' "${ROWS[@]}"
  echo
  if [[ ${#FAILED[@]} -gt 0 ]]; then
    echo "test.sh: FAILED: ${FAILED[*]}"
    return 1
  fi
  echo "test.sh: all steps passed in $took${SKIPPED[*]:+; skipped: ${SKIPPED[*]}}"
}

# select_steps [NAME,NAME]: sets SELECTED, to all steps if none is named.
select_steps() {
  local name
  SELECTED=()
  for name in "${STEPS[@]%%|*}"; do
    if [[ -z $1 || ",$1," == *",$name,"* ]]; then SELECTED+=("$name"); fi
  done
  for name in ${1//,/ }; do
    [[ " ${SELECTED[*]} " == *" $name "* ]] || bad_usage "unknown step '$name'"
  done
}

main() {
  local only='' step
  while [[ $# -gt 0 ]]; do
    case $1 in
      --help | -h) usage && exit 0 ;;
      --only | --fuzz | --faults)
        [[ -n ${2:-} ]] || bad_usage "$1 needs a value"
        case $1 in
          --only) only=$2 ;;
          --fuzz) FUZZ_SECONDS=$2 ;;
          --faults) FAULT_ROUNDS=$2 ;;
        esac
        shift 2
        ;;
      *) bad_usage "unknown option '$1'" ;;
    esac
  done
  [[ $FUZZ_SECONDS =~ ^[1-9][0-9]*$ ]] || bad_usage "'$FUZZ_SECONDS' is not a number of seconds"
  [[ $FAULT_ROUNDS =~ ^[1-9][0-9]*$ ]] || bad_usage "'$FAULT_ROUNDS' is not a number of rounds"
  select_steps "$only"

  BOLD='' RED='' PLAIN=''
  if [[ -t 1 && -z ${NO_COLOR:-} && ${CI:-} != true ]]; then
    BOLD=$'\e[1m' RED=$'\e[31m' PLAIN=$'\e[0m'
  else
    export CARGO_TERM_COLOR=never
  fi
  SCRATCH=$(mktemp -d)
  trap 'rm -rf "$SCRATCH"' EXIT
  # The folder of `cargo install`, in case it is not in the path.
  export PATH="${CARGO_INSTALL_ROOT:-${CARGO_HOME:-$HOME/.cargo}}/bin:$PATH"

  heading "install: what the tests need"
  run_apart install_needs
  if [[ $RC -ne 0 ]]; then
    echo "test.sh: FAILED: install"
    exit 1
  fi
  for step in "${STEPS[@]}"; do
    if [[ " ${SELECTED[*]} " == *" ${step%%|*} "* ]]; then run_step "${step%%|*}" "${step#*|}"; fi
  done
  summary
}

main "$@"
