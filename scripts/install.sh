# shellcheck shell=bash
# How ./test.sh gets what it needs. Sourced, not run: every function says what it does, does
# nothing when the thing is there, and fails when it cannot be had.

# cargo_tool NAME VERSION: `cargo NAME`, of that version or a newer one.
cargo_tool() {
  local found
  found=$(cargo "$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }') || found=''
  if [[ -n $found && $(printf '%s\n' "$2" "$found" | sort -V | head -n 1) == "$2" ]]; then
    echo "have cargo-$1 $found"
    return
  fi
  echo "installing cargo-$1 $2 from source, which takes minutes${found:+ (found only $found)}"
  # A target folder of its own, so that the tool's build does not stay among ours.
  env -u CARGO_TARGET_DIR cargo install --quiet --locked "cargo-$1" --version "$2"
}

# component NAME: a part of the Rust toolchain.
component() {
  if cargo "${1/rustfmt/fmt}" --version >/dev/null 2>&1; then
    echo "have $1"
    return
  fi
  echo "installing the $1 component"
  rustup component add "$1"
}

# Rust links with cc; a few dependencies and the fuzzer compile C and C++.
compiler() {
  if command -v cc >/dev/null && command -v c++ >/dev/null; then
    echo "have a C and C++ compiler"
    return
  fi
  debian build-essential
}

# PostgreSQL's server programs, which Debian keeps away from the path.
postgres() {
  if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; then
    echo "have PostgreSQL"
    return
  fi
  debian postgresql
}

# Python with virtual environments, for the peers that are written in it.
python_runtime() {
  if python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "have Python"
    return
  fi
  debian python3 python3-venv
}

# curl, with which an example calls a zone.
curl_program() {
  if command -v curl >/dev/null; then
    echo "have curl"
    return
  fi
  debian curl
}

# strace, with which a test makes syncs of a disk fail.
strace_program() {
  if command -v strace >/dev/null; then
    echo "have strace"
    return
  fi
  debian strace
}

# Node and npm, likewise. What Debian has may be too old, which only trying tells.
node_runtime() {
  if new_node && command -v npm >/dev/null; then
    echo "have Node"
    return
  fi
  debian nodejs npm
  new_node || {
    echo "the tests need Node 20 or newer: install it, then run again"
    return 1
  }
}

new_node() {
  node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null
}

# Where programs of others are kept that pip and npm bring: below the target folder, wherever that is.
peers_folder() {
  local target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target=$PWD/$target
  echo "$target/peers"
}

# is_there FOLDER STAMP: whether an installation is there, and was made from what the stamp was made of.
is_there() { [[ -f $1/stamp && $(<"$1/stamp") == "$2" ]]; }

# npm_stamp PINS: what an installation is made from, the pins and the Node that it belongs to.
npm_stamp() { { node --version && cat "$1/package-lock.json"; } | sha256sum; }

# from_npm PINS FOLDER: installs anew what the pins name. Whoever calls writes the stamp, last of all.
from_npm() {
  rm -rf "$2"
  mkdir -p "$2"
  cp "$1/package.json" "$1/package-lock.json" "$2"
  npm ci --prefix "$2" --no-audit --no-fund --ignore-scripts --loglevel=error || {
    echo "npm could not install $1/package-lock.json: see above; is a registry reachable?" >&2
    return 1
  }
}

# npm_packages WHAT PINS FOLDER: what the pins name. The stamp comes last, so an installation that was
# interrupted is not taken for one.
npm_packages() {
  local stamp
  stamp=$(npm_stamp "$2")
  if is_there "$3" "$stamp"; then
    echo "have $1"
    return
  fi
  echo "installing $1"
  from_npm "$2" "$3"
  echo "$stamp" >"$3/stamp"
}

# debian PACKAGE...: installs from Debian's packages, as root or through sudo.
debian() {
  local as_root=()
  echo "installing Debian packages: $*"
  if ! command -v apt-get >/dev/null; then
    echo "this machine has no apt-get: install the equivalent of '$*', then run again"
    return 1
  fi
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "not root and no sudo: run 'apt-get install $*' as root once, then run again"
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "$@"
}
