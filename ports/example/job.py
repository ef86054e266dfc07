"""A job in Python: it works on the rows themselves, and prints and accepts the ids that the service shows."""

import sqlite3
import sys

from opaque_id import IntId, InvalidId, Keyring


class UserId(IntId, prefix="user", key="i64"):
    pass


keyring = Keyring.from_env()
database = sqlite3.connect("axum-sqlx.db")
database.execute("PRAGMA foreign_keys = ON")

match sys.argv[1:]:
    case ["list"]:
        for key, name in database.execute("SELECT id, name FROM users ORDER BY id"):
            print(keyring.seal(UserId(key)), name)
    case ["leave", grant]:
        try:
            user = keyring.open_grant(UserId, grant, "leave")
        except InvalidId as error:
            sys.exit(f"refused: {error}")
        try:
            with database:
                (name,) = database.execute("DELETE FROM users WHERE id = ? RETURNING name", [user.key]).fetchone() or ("nobody",)
        except sqlite3.IntegrityError:
            sys.exit("refused: the user has articles")
        print(f"{name} has left")
