CREATE TABLE order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash INTEGER NOT NULL,
    uuid UUID NOT NULL
);
CREATE INDEX order_ids_hash ON order_ids (hash);
