CREATE TABLE order_ids (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE UNIQUE INDEX order_ids_uuid ON order_ids (uuid);
