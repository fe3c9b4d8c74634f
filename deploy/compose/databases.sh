#!/bin/sh
# Run once by a new database container: creates a database and a user for each zone, without access to the other's
# database.
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
