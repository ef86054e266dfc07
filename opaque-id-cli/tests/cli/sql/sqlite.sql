-- $ opaque-id sql mapping --table order_ids
CREATE TABLE order_ids (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE UNIQUE INDEX order_ids_uuid ON order_ids (uuid);
-- $ opaque-id sql mapping --table shop.order_ids --shared
CREATE TABLE shop.order_ids (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    resource VARCHAR(63) NOT NULL,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE UNIQUE INDEX shop.order_ids_uuid ON order_ids (uuid, resource);
-- $ opaque-id sql mapping --table order_ids --index hashed
CREATE TABLE order_ids (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    hash INTEGER NOT NULL,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE INDEX order_ids_hash ON order_ids (hash);
-- $ opaque-id sql mapping --table order_ids --plan hashed --shared
CREATE TABLE order_ids (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    resource VARCHAR(63) NOT NULL,
    hash INTEGER NOT NULL,
    uuid BLOB NOT NULL CHECK (length(uuid) = 16)
);
CREATE INDEX order_ids_hash ON order_ids (hash);
-- $ opaque-id sql sequences
CREATE TABLE IF NOT EXISTS opaque_id_sequences (
    name VARCHAR(63) NOT NULL PRIMARY KEY,
    used BIGINT NOT NULL
);
-- $ opaque-id sql packs --table events
CREATE TABLE events_recent (
    id BLOB NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE events_packs (
    id BLOB NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE events_meta (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
-- $ opaque-id sql packs --table shop.events --key i64
CREATE TABLE shop.events_recent (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE shop.events_packs (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE shop.events_meta (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
