# shellcheck shell=bash
# Functions that install what ./test.sh needs. Sourced, not run: every function prints what it does, does
# nothing if the requirement is met, and fails if it cannot be installed.

# cargo_tool NAME VERSION: installs `cargo NAME`, in that version or newer.
cargo_tool() {
  local found
  found=$(cargo "$1" --version 2>/dev/null | awk 'NR == 1 { print $2 }') || found=''
  if [[ -n $found && $(printf '%s\n' "$2" "$found" | sort -V | head -n 1) == "$2" ]]; then
    echo "have cargo-$1 $found"
    return
  fi
  echo "installing cargo-$1 $2 from source, which takes minutes${found:+ (found only $found)}"
  # In a separate target folder, so that the tool's build does not stay in ours.
  env -u CARGO_TARGET_DIR cargo install --quiet --locked "cargo-$1" --version "$2"
}

# component NAME: installs a component of the Rust toolchain.
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

# PostgreSQL's server programs, which Debian installs outside the path.
postgres() {
  if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; then
    echo "have PostgreSQL"
    return
  fi
  debian postgresql
}

# Python with virtual environments, for the Python peers.
python_runtime() {
  if python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "have Python"
    return
  fi
  debian python3 python3-venv
}

# curl, which an example uses to call a zone.
curl_program() {
  if command -v curl >/dev/null; then
    echo "have curl"
    return
  fi
  debian curl
}

# strace, which a test uses to make disk syncs fail.
strace_program() {
  if command -v strace >/dev/null; then
    echo "have strace"
    return
  fi
  debian strace
}

# Node and npm. Debian's version may be too old, so it is checked after the installation.
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

# Prints the folder for programs from pip and npm, below the target folder.
peers_folder() {
  local target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target=$PWD/$target
  echo "$target/peers"
}

# is_there FOLDER STAMP: succeeds if the installation exists and has this stamp.
is_there() { [[ -f $1/stamp && $(<"$1/stamp") == "$2" ]]; }

# npm_stamp PINS: prints a hash of the pins and the Node version.
npm_stamp() { { node --version && cat "$1/package-lock.json"; } | sha256sum; }

# from_npm PINS FOLDER: reinstalls the pinned packages. The caller writes the stamp at the end.
from_npm() {
  rm -rf "$2"
  mkdir -p "$2"
  cp "$1/package.json" "$1/package-lock.json" "$2"
  npm ci --prefix "$2" --no-audit --no-fund --ignore-scripts --loglevel=error || {
    echo "npm could not install $1/package-lock.json: see above; is a registry reachable?" >&2
    return 1
  }
}

# npm_packages NAME PINS FOLDER: installs the pinned packages. The stamp is written last, so an interrupted
# installation is repeated.
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

# debian PACKAGE...: installs Debian packages, as root or with sudo.
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
