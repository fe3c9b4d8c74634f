#!/usr/bin/env bash
# Installs third-party programs for the interoperability tests: the ACP Python SDK, a certified OAuth2 server,
# AWS's signature verification, Slack's SDKs, a Slack emulator, a workbook reader and their dependencies, in the
# versions pinned in tests/peers/, from the configured registries. They are installed once, below the target
# folder, and again when the pins change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

usage() {
  cat <<'USAGE'
Usage: scripts/peers.sh install  installs what is missing
       scripts/peers.sh env      prints the variables to export:  eval "$(scripts/peers.sh env)"
USAGE
}

PINS=tests/peers
PEERS=$(peers_folder)
PYTHON_FOLDER=$PEERS/python
NODE_FOLDER=$PEERS/node

# Hash of the pins and the Python version.
python_stamp() { { python3 --version && cat "$PINS/requirements.txt"; } | sha256sum; }

# The stamp is written last, so an interrupted installation is repeated.
install_python() {
  local stamp
  stamp=$(python_stamp)
  if is_there "$PYTHON_FOLDER" "$stamp"; then
    echo "have the Python peers"
    return
  fi
  echo "installing the Python peers"
  rm -rf "$PYTHON_FOLDER"
  python3 -m venv "$PYTHON_FOLDER" || {
    echo "python3 cannot create a virtual environment: run 'apt-get install python3-venv'" >&2
    return 1
  }
  "$PYTHON_FOLDER/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --requirement "$PINS/requirements.txt" || {
    echo "pip could not install $PINS/requirements.txt: see above; is a package index reachable?" >&2
    return 1
  }
  echo "$stamp" >"$PYTHON_FOLDER/stamp"
}

# The emulator needs a newer Node than most machines have, so npm installs one where available; otherwise the
# installed Node is used.
newer_node() {
  local own
  for own in "$NODE_FOLDER"/node_modules/node-linux-*/bin/node; do
    [[ -x $own ]] && echo "$own" && return
  done
  echo node
}

case ${1:-} in
  install)
    install_python
    npm_packages "the Node peers" "$PINS" "$NODE_FOLDER"
    ;;
  env)
    printf 'export INTERZONE_TEST_PYTHON=%q\n' "$PYTHON_FOLDER/bin/python"
    printf 'export INTERZONE_TEST_NODE_MODULES=%q\n' "$NODE_FOLDER/node_modules"
    printf 'export INTERZONE_TEST_NEWER_NODE=%q\n' "$(newer_node)"
    ;;
  *) usage && [[ ${1:-} == --help ]] ;;
esac
