# A node of a Galera cluster: its name, and the names of all nodes with commas between, of which the first makes
# the cluster.
set -eu
name=$1
nodes=$2
# Its log is small, as nodes receive that as well.
server="mariadbd --no-defaults --user=mysql --innodb-log-file-size=16M"
set -- --wsrep-on=ON --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-cluster-address="gcomm://$nodes" \
    --wsrep-node-address="$name" --wsrep-sst-method=rsync --wsrep-slave-threads=4 --binlog-format=ROW \
    --innodb-autoinc-lock-mode=2 --skip-name-resolve --max-connections=300 \
    --wsrep-provider-options="gcache.size=32M"
install -d -o mysql -g mysql /run/mysqld

if [ -e /started ]; then
    # A killed node finds out where it was as Debian's unit does.
    position=$($server --wsrep-recover "$@" 2>&1 | sed -n 's/.*Recovered position: *//p')
    set -- "$@" --wsrep-start-position="$position"
elif [ "$name" = "${nodes%%,*}" ]; then
    # The package has made a database; the other nodes receive it.
    $server --bootstrap <<END
FLUSH PRIVILEGES;
CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
END
    set -- "$@" --wsrep-new-cluster
fi
touch /started
exec $server "$@"
