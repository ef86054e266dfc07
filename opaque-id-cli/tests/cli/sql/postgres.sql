-- $ opaque-id sql mapping --table order_ids
CREATE TABLE order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid UUID NOT NULL
);
CREATE UNIQUE INDEX order_ids_uuid ON order_ids (uuid);
-- $ opaque-id sql mapping --table shop.order_ids --shared
CREATE TABLE shop.order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource VARCHAR(63) NOT NULL,
    uuid UUID NOT NULL
);
CREATE UNIQUE INDEX shop_order_ids_uuid ON shop.order_ids (uuid, resource);
-- $ opaque-id sql mapping --table order_ids --index hashed
CREATE TABLE order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash INTEGER NOT NULL,
    uuid UUID NOT NULL
);
CREATE INDEX order_ids_hash ON order_ids (hash);
-- $ opaque-id sql mapping --table order_ids --plan hashed --shared
CREATE TABLE order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource VARCHAR(63) NOT NULL,
    hash INTEGER NOT NULL,
    uuid UUID NOT NULL
);
CREATE INDEX order_ids_hash ON order_ids (hash);
-- $ opaque-id sql sequences
CREATE TABLE IF NOT EXISTS opaque_id_sequences (
    name VARCHAR(63) NOT NULL PRIMARY KEY,
    used BIGINT NOT NULL
);
-- $ opaque-id sql packs --table events
CREATE TABLE events_recent (
    id UUID NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE events_recent ALTER body SET STORAGE EXTERNAL;
CREATE TABLE events_packs (
    id UUID NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE events_packs ALTER body SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
CREATE TABLE events_meta (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE events_meta ALTER body SET STORAGE EXTERNAL;
-- $ opaque-id sql packs --table shop.events --key i64
CREATE TABLE shop.events_recent (
    id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE shop.events_recent ALTER body SET STORAGE EXTERNAL;
CREATE TABLE shop.events_packs (
    id BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE shop.events_packs ALTER body SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
CREATE TABLE shop.events_meta (
    id INTEGER NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    body BYTEA NOT NULL
);
ALTER TABLE shop.events_meta ALTER body SET STORAGE EXTERNAL;
