PRAGMA journal_mode = WAL;
CREATE TABLE teams (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE users (
    id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    team_id INTEGER REFERENCES teams (id),
    name TEXT NOT NULL
);
CREATE TABLE stored_keys (
    event_id BLOB NOT NULL PRIMARY KEY,
    order_id BLOB NOT NULL,
    legacy_id BLOB NOT NULL,
    team_id INTEGER NOT NULL
);
CREATE TABLE legacy (id BLOB NOT NULL PRIMARY KEY);
