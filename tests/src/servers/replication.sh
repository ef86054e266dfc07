# A primary, or a synchronous replica of it: its name, and the names of all nodes with commas between, of which the
# first is the primary.
set -eu
name=$1
nodes=$2
primary=${nodes%%,*}
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
as_postgres="setpriv --reuid=postgres --regid=postgres --init-groups"
install -d -o postgres -g postgres -m 700 "$data" /run/postgresql

if [ "$name" = "$primary" ]; then
    $as_postgres "$bin/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8
    echo "host all,replication all all trust" >> "$data/pg_hba.conf"
    # The replicas receive it as well; on the command line it could not be changed later.
    names=$(echo "$nodes" | sed 's/,/","/g')
    echo "synchronous_standby_names = 'ANY 1 (\"$names\")'" >> "$data/postgresql.conf"
else
    until $as_postgres "$bin/pg_basebackup" --host="$primary" --username=postgres --pgdata="$data" \
        --write-recovery-conf --checkpoint=fast; do
        sleep 1
    done
fi
# A replica is known to the primary by the name of its cluster.
exec $as_postgres "$bin/postgres" -D "$data" -c listen_addresses='*' -c max_connections=200 -c cluster_name="$name"
