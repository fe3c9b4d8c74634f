#!/bin/sh
# Asks an agent with nothing but curl, and shows its events until it is done.
#
#   ask.sh URL CA TOKEN TEXT
#
# `interzone token` prints a token.
set -eu
url=$1 ca=$2 token=$3 text=$4

call() {
  curl --silent --show-error --fail-with-body --cacert "$ca" \
    --header "Authorization: Bearer $token" "$@"
}

# The text must hold neither quotation marks nor backslashes: it goes into JSON as it is.
task=$(call "$url/jsonrpc" --header "Content-Type: application/json" --data '{
  "jsonrpc": "2.0", "id": "1", "method": "tasks.create",
  "params": {"initialMessage": {"role": "user", "parts": [{"type": "TextPart", "content": "'"$text"'"}]}}
}' | sed -n 's/.*"taskId":"\([^"]*\)".*/\1/p')

# Server-sent events; the zone closes them when the task has ended.
call --no-buffer "$url/tasks/$task/events"
