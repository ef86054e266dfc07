CREATE TABLE order_ids (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resource VARCHAR(63) NOT NULL,
    hash INTEGER NOT NULL,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE INDEX order_ids_hash ON order_ids (hash);
