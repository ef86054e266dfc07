# A member of a group: its name, the names of all nodes with commas between, of which the first makes the group, and
# whether only one of them takes writes, ON or OFF.
set -eu
name=$1
nodes=$2
single_primary=$3
everywhere=ON
[ "$single_primary" = OFF ] || everywhere=OFF
group_seeds=$(echo "$nodes" | sed 's/,/:33061,/g'):33061
set -- --server-id="${name##*-}" --report-host="$name" --gtid-mode=ON --enforce-gtid-consistency=ON \
    --max-connections=300 --mysqlx=OFF --plugin-load-add=group_replication.so \
    --loose-group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa \
    --loose-group-replication-local-address="$name:33061" --loose-group-replication-group-seeds="$group_seeds" \
    --loose-group-replication-start-on-boot=OFF --loose-group-replication-single-primary-mode="$single_primary" \
    --loose-group-replication-enforce-update-everywhere-checks="$everywhere" \
    --loose-group-replication-recovery-get-public-key=ON
install -d -o mysql -g mysql /run/mysqld
join="START GROUP_REPLICATION USER = 'root'"

if [ -e /started ]; then
    # It takes no write before it is a member again: no member would ever get it.
    set -- "$@" --super-read-only=ON
else
    # The package has made a database, whose identity is the same in all containers.
    rm /var/lib/mysql/auto.cnf
    cat > /users.sql <<END
SET SESSION sql_log_bin = OFF;
CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
END
    set -- "$@" --init-file=/users.sql
    if [ "$name" = "${nodes%%,*}" ]; then
        join="SET GLOBAL group_replication_bootstrap_group = ON; $join; SET GLOBAL group_replication_bootstrap_group = OFF"
    fi
fi
touch /started
mysqld --no-defaults --user=mysql "$@" &
# It can't before the server has started, the first has made the group, and the others have given up its old self.
until mysql --execute="$join"; do
    sleep 1
done
wait
