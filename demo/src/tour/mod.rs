//! The tour in the terminal: keys in SQLite, and ids in an imagined API.

mod shop;
mod show;

use opaque_id_sqlx::key::StructuredKey;
use opaque_id_sqlx::{Cursor, External, IdError, Internal, Keyring, MasterSecret};
use shop::{Invoice, Order, Shop, User};
use show::{heading, note, refused, table};

use crate::Result;

pub(crate) async fn run() -> Result {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(&folder.path().join("shop.sqlite")).await?;
    let first = MasterSecret::generate();
    let keyring = Keyring::builder().sealing(0, first.clone()).build()?;

    heading("1  What the database stores, and what the API returns");
    let (users, orders) = fill(&shop).await?;
    let invoices = shop.invoices_after(None, 100).await?;
    let columns = ["", "in SQLite", "in the API"];
    note("Users: an integer, shown as text. 42 is the README's example.");
    let rows = users.iter().zip(shop.stored_keys("CAST(id AS TEXT)", "users").await?);
    table(
        columns,
        0,
        rows.map(|(user, key)| [user.name.clone(), key, keyring.seal(user.id).to_string()]),
    );
    note("Orders: a structured key (a sequence number and a nonce), shown as a UUID");
    let rows = orders.iter().zip(shop.stored_keys("lower(hex(id))", "orders").await?);
    table(
        columns,
        0,
        rows.map(|(order, key)| [order.item.clone(), key, keyring.seal(order.id).to_string()]),
    );
    note("Invoices: a UUIDv7, shown as text");
    let rows = invoices.iter().zip(shop.stored_keys("lower(hex(id))", "invoices").await?);
    let rows = rows.map(|(invoice, key)| {
        let total = format!("{}.{:02}", invoice.cents / 100, invoice.cents % 100);
        [total, key, keyring.seal(invoice.id).to_string()]
    });
    table(columns, 0, rows);

    heading("2  Open: an external id finds its row by primary key, without a lookup table");
    let mut rows = Vec::new();
    for user in &users {
        let requested: External<User> = keyring.seal(user.id).to_string().parse()?;
        let found = shop.user(keyring.open(requested)?).await?.ok_or("the user does not exist")?;
        rows.push([requested.to_string(), found.name]);
    }
    table(["GET /users/{id}", "response"], 1, rows);

    heading("3  List with a cursor: each page is an ordered range scan of the primary key");
    let mut rows = Vec::new();
    let mut after: Option<Cursor<Invoice>> = None;
    for page in 1.. {
        let position = after.map(|cursor| keyring.open_cursor(cursor)).transpose()?;
        let invoices = shop.invoices_after(position, 2).await?;
        let Some(last) = invoices.last() else { break };
        let shown = after.map_or("-".into(), |cursor| cursor.to_string());
        let ids = invoices.iter().map(|invoice| keyring.seal(invoice.id).to_string());
        let ids: Vec<String> = ids.collect();
        rows.push([page.to_string(), shown, ids.join("\n")]);
        after = Some(keyring.seal_cursor(last.id));
    }
    table(["page", "cursor", "ids on the page, oldest first"], 0, rows);

    heading("4  Refused ids, and why");
    refusals(&shop, &keyring, &users[0], &invoices[0]).await?;

    heading("5  Rotate the secret, renew the ids, retire the old secret");
    let second = MasterSecret::generate();
    let rotating = Keyring::builder().sealing(1, second.clone()).opening(0, first).build()?;
    let retired = Keyring::builder().sealing(1, second).build()?;
    let mut rows = Vec::new();
    for user in &users {
        let old = keyring.seal(user.id);
        let new = rotating.renew(old)?;
        if retired.open(new)? != user.id {
            return Err("a renewed id opened as another row".into());
        }
        rows.push([user.name.clone(), old.to_string(), new.to_string()]);
    }
    table(["user", "old id (key id 0)", "renewed id (key id 1)"], 0, rows);
    let counts = rotating.key_ids().map(|key_id| {
        let check = rotating.check_value(key_id).map(|value| value.to_string()).unwrap_or_default();
        [key_id.to_string(), check, rotating.opened_count(key_id).to_string()]
    });
    table(["key id", "check value", "ids opened"], 2, counts);
    let old = keyring.seal(users[0].id);
    table(
        ["requested id", "refused by", "reason"],
        2,
        [refused("an id sealed with a retired secret", old, "the keyring", retired.open(old))?],
    );
    note("The database did not change: same rows, same keys, new ids.");
    Ok(())
}

async fn fill(shop: &Shop) -> Result<(Vec<User>, Vec<Order>)> {
    let mut users = Vec::new();
    for (id, name) in [(Some(Internal::from_key(42)?), "Ada"), (None, "Grace"), (None, "Barbara")] {
        users.push(User { id: shop.insert_user(id, name).await?, name: name.into() });
    }
    let mut orders = Vec::new();
    for (sequence, item) in (1..).zip(["loom", "compiler"]) {
        let id = Internal::from_key(StructuredKey::with_sequence(sequence)?)?;
        let order = Order { id, user: users[0].id, item: item.into() };
        shop.insert_order(&order).await?;
        orders.push(order);
    }
    for cents in [12_900, 4_990, 999, 125_000, 7_500] {
        shop.insert_invoice(orders[0].id, cents).await?;
    }
    Ok((users, orders))
}

async fn refusals(shop: &Shop, keyring: &Keyring, user: &User, invoice: &Invoice) -> Result {
    let mut rows = Vec::new();

    let id = keyring.seal(user.id).to_string();
    let neighbor: External<User> = replace_last(&id).parse()?;
    rows.push(refused("a guessed neighbor", neighbor, "its 64-bit tag", keyring.open(neighbor))?);

    let id_of_invoice = keyring.seal(invoice.id).to_string();
    let tampered: External<Invoice> = replace_last(&id_of_invoice).parse()?;
    rows.push(match keyring.open(tampered) {
        // One in 64 opens as a valid UUIDv7, and then the database has no such row.
        Ok(key) => {
            let found = shop.has_invoice(key).await?.then_some(()).ok_or(IdError::NoRow);
            refused("a tampered id", tampered, "the database", found)?
        }
        error => refused("a tampered id", tampered, "the keyring", error)?,
    });

    let parsed = id_of_invoice.parse::<External<User>>();
    rows.push(refused("an invoice id for a user", id_of_invoice, "its prefix", parsed)?);

    let upper = id.to_uppercase();
    let parsed = upper.parse::<External<User>>();
    rows.push(refused("the same id in upper case", upper, "its text", parsed)?);

    let raw = user.id.expose_key().to_string();
    let parsed = raw.parse::<External<User>>();
    let status = parsed.map_or_else(|error| error.http_status(), |_| 200);
    rows.push(refused("the raw key", raw, "its text", parsed)?);

    table(["requested id", "refused by", "reason"], 2, rows);
    note(&format!(
        "The client gets the same {status} for each of these; the reason goes to the log."
    ));
    Ok(())
}

fn replace_last(id: &str) -> String {
    let (head, last) = id.split_at(id.len() - 1);
    format!("{head}{}", if last == "0" { "1" } else { "0" })
}
