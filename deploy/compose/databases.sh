#!/bin/sh
# Run once by the database's container, when it is new: a database and a user for each zone, and no way from
# one to the other.
set -eu

for zone in execution verification; do
  password=$(cat "/run/secrets/database-$zone")
  psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --username postgres \
    --set zone="$zone" --set password="$password" <<'SQL'
CREATE ROLE :"zone" LOGIN PASSWORD :'password';
CREATE DATABASE :"zone" OWNER :"zone";
REVOKE ALL ON DATABASE :"zone" FROM PUBLIC;
SQL
done
