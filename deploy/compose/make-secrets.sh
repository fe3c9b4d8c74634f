#!/bin/sh
# Creates the secrets of compose.yaml: passwords, and a CA with a certificate for each zone. Existing files are kept.
# Replace the certificates by your own if you have them.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets
printf '*\n' >.gitignore

random() { openssl rand -hex 24; }

# write NAME TEXT: creates a file. It is readable by all, for the zones' user; the folder is private.
write() {
  [ -s "$1" ] || printf '%s\n' "$2" >"$1"
  chmod 644 "$1"
}

certificate() {
  [ -s "$1-cert.pem" ] || {
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1-key.pem" \
      -subj "/CN=$1" -out "$1.csr" 2>/dev/null
    printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' "$1" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 825 \
      -extfile "$1.ext" -out "$1-cert.pem" 2>/dev/null
    rm -f "$1.csr" "$1.ext"
  }
  chmod 644 "$1-cert.pem" "$1-key.pem"
}

[ -s ca.pem ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
  -subj "/CN=Interzone CA" -keyout ca-key.pem -out ca.pem 2>/dev/null
chmod 644 ca.pem
write database "$(random)"
for zone in execution verification; do
  certificate "$zone"
  write "database-$zone" "$(random)"
  password=$(cat "database-$zone")
  write "$zone-store" "postgres://$zone:$password@%2Fvar%2Frun%2Fpostgresql/$zone"
done
for token in slack-bot slack-app; do
  [ -e "$token" ] || : >"$token"
  chmod 644 "$token"
done
echo "created in $(pwd); now write the Slack tokens to slack-bot (xoxb-…) and slack-app (xapp-…)"
