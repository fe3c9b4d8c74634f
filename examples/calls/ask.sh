#!/bin/sh
# Calls an agent with curl and prints its events until the task has ended.
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

# The text is inserted into JSON unescaped, so it must not contain quotation marks or backslashes.
task=$(call "$url/jsonrpc" --header "Content-Type: application/json" --data '{
  "jsonrpc": "2.0", "id": "1", "method": "tasks.create",
  "params": {"initialMessage": {"role": "user", "parts": [{"type": "TextPart", "content": "'"$text"'"}]}}
}' | sed -n 's/.*"taskId":"\([^"]*\)".*/\1/p')

# Server-sent events. The zone ends the response when the task has ended.
call --no-buffer "$url/tasks/$task/events"
