#!/usr/bin/env bash
# Private PostgreSQL server for tests: a separate cluster in a temporary folder, on a Unix socket and a
# free loopback port, deleted when it is stopped. fsync is on, as durability is tested, and the collation
# is a language's, so that queries that need byte order must request it.
set -euo pipefail

usage() {
  cat <<'USAGE'
Usage: scripts/postgres.sh start          prints the variables to export:  eval "$(scripts/postgres.sh start)"
       scripts/postgres.sh stop [FOLDER]  stops it and removes its folder
       scripts/postgres.sh crash FOLDER   kills it, so that it has to recover
       scripts/postgres.sh revive FOLDER  starts a stopped or crashed one again, on the same port

FOLDER is what `start` printed; `stop` takes $INTERZONE_TEST_POSTGRES_FOLDER if none is given.
USAGE
}

# Prints the folder of initdb and pg_ctl: the newest version of Debian's packages, or the one on the path.
programs() {
  local found
  found=$(find /usr/lib/postgresql -mindepth 3 -maxdepth 3 -name initdb -path '*/bin/*' 2>/dev/null |
    sort -V | tail -n 1)
  [[ -n $found ]] || found=$(command -v initdb) || {
    echo "PostgreSQL is not installed: run 'apt-get install postgresql'" >&2
    return 1
  }
  dirname "$found"
}

# The server refuses to run as root; Debian's package creates a user for it.
as_server() {
  if [[ $(id -u) -eq 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi
}

# launch FOLDER PORT
launch() {
  as_server "$(programs)/pg_ctl" -D "$1/data" -w -t 60 -l "$1/log" start \
    -o "-p $2 -k $1 -c listen_addresses=127.0.0.1" </dev/null >/dev/null 2>&1
}

start() {
  local folder bin port try within=${INTERZONE_TEST_POSTGRES_FOLDER:-/tmp}
  bin=$(programs)
  # Inside the folder of a running server, if any: an interrupted test cannot stop its own server, but
  # stopping the first one stops all. Short, as a socket path has at most 107 bytes.
  [[ -d $within ]] || within=/tmp
  folder=$(mktemp -d "$within/izpg.XXXXXX")
  trap 'remove "$folder"' ERR INT TERM
  echo interzone >"$folder/password"
  if [[ $(id -u) -eq 0 ]]; then chown -R postgres "$folder"; fi
  as_server "$bin/initdb" -D "$folder/data" -U interzone -A scram-sha-256 \
    --pwfile="$folder/password" -E UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en-US \
    >"$folder/initdb.log" 2>&1 || {
    cat "$folder/initdb.log" >&2
    false
  }
  # Many concurrent tests, each with one or two pools.
  as_server tee -a "$folder/data/postgresql.conf" >/dev/null <<'CONF'
max_connections = 500
shared_buffers = 128MB
fsync = on
synchronous_commit = on
# No checkpoints while tests run: they would sync the files of every test's schema.
checkpoint_timeout = 1h
max_wal_size = 4GB
CONF
  # A port is only known to be free once it is bound.
  for try in {1..20}; do
    port=$((20000 + (RANDOM * 32768 + RANDOM) % 30000))
    if launch "$folder" "$port"; then break; fi
    if [[ $try -eq 20 ]]; then
      cat "$folder/log" >&2
      false
    fi
  done
  echo "$port" >"$folder/port"
  trap - ERR INT TERM
  echo "export INTERZONE_TEST_POSTGRES=postgres://interzone:interzone@127.0.0.1:$port/postgres"
  echo "export INTERZONE_TEST_POSTGRES_FOLDER=$folder"
}

# remove FOLDER: removes the server in any state, and those inside its folder.
remove() {
  local inner
  [[ $1 == /tmp/izpg.* && -d $1 ]] || { echo "$1 was not created by 'start'" >&2 && return 1; }
  for inner in "$1"/izpg.*; do
    if [[ -d $inner ]]; then remove "$inner"; fi
  done
  if [[ -f $1/data/postmaster.pid ]]; then
    as_server "$(programs)/pg_ctl" -D "$1/data" -m immediate -w stop </dev/null >/dev/null 2>&1 || true
  fi
  rm -rf "$1"
}

case ${1:-} in
  start) start ;;
  stop) remove "${2:-${INTERZONE_TEST_POSTGRES_FOLDER:?no server to stop}}" ;;
  # The processes exit immediately, as if killed; unwritten data is lost, and the next start has to
  # recover.
  crash) as_server "$(programs)/pg_ctl" -D "$2/data" -m immediate -w stop </dev/null >/dev/null ;;
  revive) launch "$2" "$(<"$2/port")" ;;
  *) usage && [[ ${1:-} == --help ]] ;;
esac
