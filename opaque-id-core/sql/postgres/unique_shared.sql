CREATE TABLE order_ids (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource VARCHAR(63) NOT NULL,
    uuid UUID NOT NULL
);
CREATE UNIQUE INDEX order_ids_uuid ON order_ids (uuid, resource);
