CREATE TABLE users (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    invited_by BLOB REFERENCES users (id),
    name TEXT NOT NULL
);
