#!/bin/sh
# What the tests need of the official image's contract: MARIADB_ALLOW_EMPTY_ROOT_PASSWORD, options after it,
# logs on standard error. Debian's own configuration binds loopback, hence --no-defaults.
set -eu
data=/var/lib/mysql/data
users=/run/mysqld/users.sql

if [ ! -d "$data/mysql" ]; then
    [ -n "$MARIADB_ALLOW_EMPTY_ROOT_PASSWORD" ]
    install -d -o mysql -g mysql /var/lib/mysql "$data" /run/mysqld
    mariadb-install-db --no-defaults --user=mysql --datadir="$data" --skip-test-db \
        --auth-root-authentication-method=normal
    cat > "$users" <<END
CREATE USER IF NOT EXISTS root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
END
fi
exec mariadbd --no-defaults --user=mysql --datadir="$data" --init-file="$users" "$@"
