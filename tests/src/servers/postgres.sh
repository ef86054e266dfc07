#!/bin/sh
# What the tests need of the official image's contract: POSTGRES_HOST_AUTH_METHOD, options after it, logs on
# standard error.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
as_postgres="setpriv --reuid=postgres --regid=postgres --init-groups"

if [ ! -s "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres "$data" /run/postgresql
    $as_postgres "$bin/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8
    echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >> "$data/pg_hba.conf"
fi
exec $as_postgres "$bin/postgres" -D "$data" -c listen_addresses='*' "$@"
