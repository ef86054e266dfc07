CREATE TABLE order_ids (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resource VARCHAR(63) NOT NULL,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE UNIQUE INDEX order_ids_uuid ON order_ids (uuid, resource);
