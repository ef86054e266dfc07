//! A column of plaintext becomes an encrypted column while clients use it.

use std::panic::resume_unwind;
use std::time::{Duration, SystemTime};

use opaque_id_core::resource::InternalId;
use opaque_id_packs::{ColumnName, Conversion, Json, Settings, TableError, Text};

use crate::Result;
use crate::conformance::cases::{error, message, rotate_while_clients_write};
use crate::conformance::columns::{ADDRESS, ColumnShop, address, addresses};
use crate::conformance::dropped::Moment;
use crate::conformance::mapping::dialect;
use crate::conformance::packs::{keyring, panics};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::{IdOf, generate};
use crate::database::Database;
use crate::engine::Engine;

/// Creates a table with `rows` addresses in plaintext, and returns their ids.
async fn plaintext<S: ColumnShop>(
    shop: &S,
    database: &Database,
    rows: usize,
) -> Result<Vec<IdOf<S::User>>> {
    shop.create_profiles(database).await?;
    database.execute(&S::create_column::<S::User, Text>(dialect(database.kind), ADDRESS))?;
    database.execute("ALTER TABLE profiles ADD COLUMN address_text VARCHAR(200) CHECK (LENGTH(address_text) <= 200)")?;
    let mut ids: Vec<IdOf<S::User>> = (0..rows).map(|_| generate()).collect();
    ids.sort();
    let values = ids.iter().enumerate().map(|(i, id)| {
        let (id, empty) = (database.kind.uuid(*id.as_repr()), database.kind.bytes(b"n"));
        format!("({id}, {empty}, {})", text(&format!("Zürich {i}")))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    database.execute(&format!("INSERT INTO profiles (id, notes, address_text) VALUES {values}"))?;
    Ok(ids)
}

fn text(text: &str) -> String {
    format!("'{text}'")
}

/// Reads all addresses as an application does while both forms are accepted.
async fn read_addresses<S: ColumnShop>(
    shop: &S,
    database: &Database,
    column: &S::Column<S::User, Text>,
) -> Result<Vec<Option<String>>> {
    let profiles = shop.profiles().await?;
    let plain = database.lines("SELECT COALESCE(address_text, '-') FROM profiles ORDER BY id")?;
    let mut read = Vec::new();
    for (profile, plain) in profiles.into_iter().zip(plain.lines()) {
        let plain = Some(plain.to_owned()).filter(|plain| plain != "-");
        read.push(
            shop.decrypt_or_plaintext(column, profile.id, profile.address.as_ref(), plain).await?,
        );
    }
    Ok(read)
}

/// A column is encrypted while one client writes plaintext and another one encrypts, and while the conversion is dropped at every await.
pub(super) async fn columns_are_encrypted_while_clients_write<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const ROWS: usize = 150;
    let ids = plaintext(shop, database, ROWS).await?;
    let (column, kind) = (addresses(shop, keyring(0)?).await?, database.kind);
    let indexed = shop.convert(&column, &address(), Conversion::Index, |_| {}).await?;
    assert_eq!((indexed.rows, indexed.plaintext, indexed.unindexed), (ROWS as u64, ROWS as u64, 0));
    assert_eq!(shop.profiles_at(&S::fingerprint(&column, "ZÜRICH 7")?).await?[0].id, ids[7]);
    database.execute("CREATE UNIQUE INDEX addresses ON profiles (address_index)")?;

    // The first client has the rows of even numbers, and the second one has the others.
    let write = async |_: S, number: usize, rounds: &mut dyn Iterator<Item = usize>| {
        for round in rounds {
            for (place, id) in ids.iter().enumerate().skip(number).step_by(2 * 5) {
                let new = format!("Round {} of {place}", round + 1);
                let index = kind.bytes(S::fingerprint(&column, &new)?.as_bytes());
                let set = match number {
                    0 => format!("address_text = {}", text(&new)),
                    _ => format!(
                        "address = {}, address_text = NULL",
                        kind.bytes(S::encrypt(&column, *id, &new)?.as_bytes())
                    ),
                };
                let row = kind.uuid(*id.as_repr());
                database.execute(&format!(
                    "UPDATE profiles SET {set}, address_index = {index} WHERE id = {row}"
                ))?;
            }
        }
        Ok(())
    };
    let convert = async |shop: S, wait: &dyn Fn()| {
        wait();
        let name = address();
        for polls in 1.. {
            let call = shop.convert(&column, &name, Conversion::Encrypted, |_| {});
            if Moment::Polled(polls).drop(call).await.transpose()?.is_some() {
                break;
            }
        }
        wait();
        Ok(())
    };
    let rounds: [usize; 2] = rotate_while_clients_write(database, 1, write, convert)?;
    let expected: Vec<_> = (0..ROWS)
        .map(|place| match place % 10 {
            number @ (0 | 1) => Some(format!("Round {} of {place}", rounds[number])),
            _ => Some(format!("Zürich {place}")),
        })
        .collect();
    // The first client has written plaintext until now.
    let refused = error(read_addresses(shop, database, &column).await);
    assert!(refused.contains("a value of profiles_address is in plaintext"), "{refused}");
    let hour = Duration::from_secs(3_600);
    let over = S::accept_plaintext(column.clone(), SystemTime::now() - hour);
    assert!(read_addresses(shop, database, &over).await.is_err());
    let both = S::accept_plaintext(column.clone(), SystemTime::now() + hour);
    assert_eq!(read_addresses(shop, database, &both).await?, expected);
    let problems = shop.verify(&column, &address(), |_| {}).await?.problems;
    assert!(
        !problems.is_empty()
            && problems.iter().all(|problem| matches!(problem, TableError::Plaintext { .. })),
        "{problems:?}"
    );
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((converted.plaintext, converted.unindexed, converted.problems), (0, 0, vec![]));
    assert_eq!(read_addresses(shop, database, &column).await?, expected);
    assert_eq!(shop.verify(&column, &address(), |_| {}).await?.problems, []);
    let again = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((again.rows, again.lost), (0, 0));

    // The first attempt to go back ends early.
    let killed = |count: u64| {
        if count >= 64 {
            resume_unwind(Box::new("in the middle"))
        }
    };
    let name = address();
    assert!(panics(shop.convert(&column, &name, Conversion::Plaintext, killed)).await);
    let back = shop.convert(&column, &address(), Conversion::Plaintext, |_| {}).await?;
    assert_eq!((back.plaintext, back.problems), (ROWS as u64, vec![]));
    assert_eq!(database.integer("COUNT(*)", "profiles WHERE address IS NOT NULL")?, 0);
    assert_eq!(read_addresses(shop, database, &both).await?, expected);
    Ok(Passed)
}

/// Rows that cannot be converted are named, and all others are converted.
pub(super) async fn columns_that_cannot_be_converted<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const ROWS: usize = 70;
    let ids = plaintext(shop, database, ROWS).await?;
    let column = addresses(shop, keyring(0)?).await?;
    database.execute("CREATE UNIQUE INDEX addresses ON profiles (address_index)")?;
    let row = |place: usize| database.kind.uuid(*ids[place].as_repr());
    // The fingerprints of two rows are equal, one text is empty, and one has characters that SQL escapes.
    for (place, new) in [(3, text("ZÜRICH 2")), (5, text("")), (6, text("100%_''x"))] {
        database.execute(&format!(
            "UPDATE profiles SET address_text = {new} WHERE id = {}",
            row(place)
        ))?;
    }
    // A client has written plaintext over an encrypted value.
    let theirs = database.kind.bytes(S::encrypt(&column, ids[7], "Rome")?.as_bytes());
    database.execute(&format!("UPDATE profiles SET address = {theirs} WHERE id = {}", row(7)))?;
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    let [TableError::Duplicate { location, .. }] = &converted.problems[..] else {
        return Err(format!("{:?}", converted.problems).into());
    };
    assert_eq!(location.expose_id(), Some(&*ids[3].as_repr().to_string()));
    assert_eq!((converted.rows, converted.plaintext, converted.unindexed), (ROWS as u64 - 1, 1, 1));
    database.execute(&format!(
        "UPDATE profiles SET address_text = {} WHERE id = {}",
        text("Bern"),
        row(3)
    ))?;
    let converted = shop.convert(&column, &address(), Conversion::Encrypted, |_| {}).await?;
    assert_eq!((converted.rows, converted.plaintext), (1, 0));
    let read = read_addresses(shop, database, &column).await?;
    let read: Vec<_> = read[2..8].iter().map(|text| text.as_deref().unwrap_or_default()).collect();
    assert_eq!(read, ["Zürich 2", "Bern", "Zürich 4", "", "100%_'x", "Zürich 7"]);

    // A value from another row, one that is cut off, and one that the old column refuses stay as they are, and the others are plaintext again.
    let moved = format!(
        "(SELECT address FROM (SELECT address FROM profiles WHERE id = {}) AS other)",
        row(2)
    );
    let short = database.kind.bytes(&[4, 0, 0, 7]);
    let long = S::encrypt(&column, ids[10], &"x".repeat(201))?;
    for (place, body) in [(8, moved), (9, short), (10, database.kind.bytes(long.as_bytes()))] {
        database
            .execute(&format!("UPDATE profiles SET address = {body} WHERE id = {}", row(place)))?;
    }
    let back = shop.convert(&column, &address(), Conversion::Plaintext, |_| {}).await?;
    let [.., TableError::Refused { location, .. }] = &back.problems[..] else {
        return Err(format!("{:?}", back.problems).into());
    };
    assert_eq!(location.expose_id(), Some(&*ids[10].as_repr().to_string()));
    assert_eq!((back.plaintext, back.encrypted, back.problems.len()), (ROWS as u64 - 3, 3, 3));

    // The values are JSON, and a column is missing.
    let strings = shop.open_column::<S::User, Json>(&keyring(0)?, ADDRESS.into(), None).await;
    assert!(error(strings).contains("to contain json, found raw"));
    let missing =
        ColumnName::new("profiles", "address").index("address_index").plaintext("no_such");
    assert!(shop.convert(&column, &missing, Conversion::Encrypted, |_| {}).await.is_err());

    // The caller names columns of other data.
    let is_mysql = matches!(database.kind, Engine::Mysql | Engine::Mariadb);
    let latin1 = if is_mysql { "CHARACTER SET latin1" } else { "" };
    database.execute(&format!("ALTER TABLE profiles ADD COLUMN digits VARCHAR(200) {latin1}"))?;
    for (encrypted, index, refusal, is_refused) in [
        ("notes", "address_index", "the column of encrypted values has other values", true),
        ("address", "notes", "fingerprints has another type or length", true),
        ("digits", "address_index", "operator", database.kind == Engine::Postgres),
        ("digits", "address_index", "has another type", is_mysql),
    ] {
        let other = ColumnName::new("profiles", encrypted).index(index).plaintext("address_text");
        if is_refused {
            let refused = error(shop.convert(&column, &other, Conversion::Encrypted, |_| {}).await);
            assert!(refused.contains(refusal), "{refused}");
        }
    }
    Ok(Passed)
}

/// Plaintext of other types comes back as it was, and bytes that are no text stay.
pub(super) async fn columns_that_had_any_type<S: ColumnShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    let id = plaintext(shop, database, 1).await?.remove(0);
    let settings = Some(Settings::default());
    let column = shop.open_column::<S::User, Text>(&keyring(0)?, ADDRESS.into(), settings).await?;
    if database.kind == Engine::Postgres {
        database.execute("CREATE DOMAIN document AS jsonb")?;
        database.execute("CREATE DOMAIN picture AS bytea")?;
    }
    let (types, text_type, bytes_type): (&[_], _, _) = match database.kind {
        Engine::Postgres => (
            &[
                ("INTEGER", "-7"),
                ("NUMERIC(9, 2)", "-1.50"),
                ("DATE", "2024-02-03"),
                ("BOOLEAN", "true"),
                ("JSON", r#"{"a":  1.50}"#),
                ("JSONB", r#"{"a": 1.50}"#),
                // In small letters, the caller does not say that it has JSON.
                ("jsonb", r#"{"a": 1.50}"#),
                ("document", r#"{"a": 1.50}"#),
            ],
            "TEXT",
            "picture",
        ),
        Engine::Mysql | Engine::Mariadb => (
            &[
                ("BIGINT UNSIGNED", "18446744073709551615"),
                ("DECIMAL(9, 2)", "-1.50"),
                ("DATE", "2024-02-03"),
                ("ENUM('a', 'b')", "b"),
                ("VARCHAR(9) CHARACTER SET latin1", "Zürich"),
                ("VARBINARY(9)", "Zürich"),
                ("JSON", r#"{"a": 1}"#),
            ],
            "CHAR",
            "VARBINARY(9)",
        ),
        Engine::Sqlite => (&[("INTEGER", "-7"), ("TEXT COLLATE NOCASE", "Zürich")], "TEXT", "BLOB"),
    };
    for (place, (of, value)) in types.iter().enumerate() {
        let name = format!("plain_{place}");
        database.execute(&format!("ALTER TABLE profiles ADD COLUMN {name} {of}"))?;
        database.execute(&format!("UPDATE profiles SET {name} = {}", text(value)))?;
        let address = ColumnName::new("profiles", "address");
        let address = match of.starts_with("JSON") {
            true => address.plaintext_json(&name),
            false => address.plaintext(&name),
        };
        let converted = shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await?;
        assert_eq!((converted.rows, converted.plaintext), (1, 0), "{of}: {converted:?}");
        let encrypted = shop.profiles().await?.remove(0).address.ok_or("no address")?;
        assert_eq!(S::decrypt(&column, id, &encrypted)?, *value, "{of}");
        let back = shop.convert(&column, &address, Conversion::Plaintext, |_| {}).await?;
        assert_eq!((back.rows, back.plaintext), (1, 1), "{of}: {back:?}");
        let found = database.text(&format!("SELECT CAST({name} AS {text_type}) FROM profiles"))?;
        assert_eq!(found, *value, "{of}");
    }
    if database.kind == Engine::Postgres {
        // PostgreSQL would read it as NULL on the way back.
        database.execute("ALTER TABLE profiles ADD COLUMN nothing JSONB DEFAULT 'null'")?;
        let address = ColumnName::new("profiles", "address").plaintext_json("nothing");
        shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await?;
        let back = shop.convert(&column, &address, Conversion::Plaintext, |_| {}).await?;
        assert_eq!((back.encrypted, back.problems.len()), (1, 1), "{back:?}");
        database.execute("UPDATE profiles SET address = NULL")?;
    }
    let bytes = database.kind.bytes(b"a\xffb");
    database.execute(&format!("ALTER TABLE profiles ADD COLUMN plain_bytes {bytes_type}"))?;
    database.execute(&format!("UPDATE profiles SET plain_bytes = {bytes}"))?;
    let address = ColumnName::new("profiles", "address").plaintext("plain_bytes");
    let converted = shop.convert(&column, &address, Conversion::Encrypted, |_| {}).await;
    let shown = converted.map_or_else(|error| message(&*error), |it| format!("{:?}", it.problems));
    assert!(shown.contains("expected text"), "{shown}");
    let left = format!("profiles WHERE plain_bytes = {bytes} AND address IS NULL");
    assert_eq!(database.integer("COUNT(*)", &left)?, 1);
    Ok(Passed)
}
