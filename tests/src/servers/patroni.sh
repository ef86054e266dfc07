# A node of Patroni, with a member of etcd: its name, and the names of all nodes with commas between.
set -eu
name=$1
nodes=$2
data=/var/lib/postgresql/data
as_postgres="setpriv --reuid=postgres --regid=postgres --init-groups"
install -d -o postgres -g postgres -m 700 "$data" /run/postgresql

etcd --name="$name" --data-dir=/var/lib/etcd/data --log-level=error \
    --initial-cluster="$(echo "$nodes" | sed 's|[^,]*|&=http://&:2380|g')" \
    --initial-advertise-peer-urls="http://$name:2380" --listen-peer-urls=http://0.0.0.0:2380 \
    --advertise-client-urls="http://$name:2379" --listen-client-urls=http://0.0.0.0:2379 &

# The time-outs are the shortest that it accepts.
cat > /patroni.yml <<END
scope: shop
name: $name
restapi: {listen: "0.0.0.0:8008", connect_address: "$name:8008"}
etcd3: {hosts: "$(echo "$nodes" | sed 's/,/:2379,/g'):2379"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    postgresql: {use_pg_rewind: true, parameters: {max_connections: 200}}
  initdb: [encoding: UTF8]
postgresql:
  listen: "0.0.0.0:5432"
  connect_address: "$name:5432"
  data_dir: $data
  bin_dir: $(echo /usr/lib/postgresql/*/bin)
  pgpass: /tmp/pgpass
  pg_hba: [local all all trust, host all all all trust, host replication all all trust]
  authentication: {superuser: {username: postgres}, replication: {username: postgres}}
END
exec $as_postgres patroni /patroni.yml
