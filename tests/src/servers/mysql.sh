#!/bin/sh
# What the tests need of the official image's contract: MYSQL_ALLOW_EMPTY_PASSWORD, options after it, logs
# on standard error. Debian's own configuration binds loopback, hence --no-defaults.
set -eu
data=/var/lib/mysql/data

if [ ! -d "$data/mysql" ]; then
    [ -n "$MYSQL_ALLOW_EMPTY_PASSWORD" ]
    install -d -o mysql -g mysql /var/lib/mysql "$data" /run/mysqld
    users=/run/mysqld/users.sql
    cat > "$users" <<END
CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
END
    mysqld --no-defaults --user=mysql --datadir="$data" --initialize-insecure --init-file="$users"
fi
exec mysqld --no-defaults --user=mysql --datadir="$data" "$@"
