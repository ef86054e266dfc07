#!/bin/sh
# What the tests need of the official image's contract: POSTGRES_PASSWORD, options after it, logs on
# standard error.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
as_postgres="setpriv --reuid=postgres --regid=postgres --init-groups"

if [ ! -s "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres "$data" /run/postgresql
    password=$(mktemp)
    printf '%s' "$POSTGRES_PASSWORD" > "$password"
    chown postgres "$password"
    $as_postgres "$bin/initdb" --pgdata="$data" --username=postgres --pwfile="$password" \
        --auth=scram-sha-256 --encoding=UTF8
    rm "$password"
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
fi
exec $as_postgres "$bin/postgres" -D "$data" -c listen_addresses='*' "$@"
