//! The tour in the terminal: keys in SQLite, and ids in an imagined API.

mod shop;
mod show;

use opaque_id_sqlx::key::StructuredKey;
use opaque_id_sqlx::resource::SealedResource;
use opaque_id_sqlx::{Cursor, External, Internal, Keyring, MasterSecret};
use shop::{Customer, Invoice, Order, Shop};
use show::{heading, note, rejected, table};

use crate::Result;

pub(crate) async fn run() -> Result {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(&folder.path().join("shop.sqlite")).await?;
    let first = MasterSecret::generate();
    let keyring = Keyring::builder().sealing(0, first.clone()).build()?;

    heading("1  What the database stores, and what the API returns");
    let (customers, orders, invoices) = fill(&shop).await?;
    let columns = ["", "in SQLite", "in the API"];
    let mut rows = Vec::new();
    for customer in &customers {
        rows.push(row(&shop, &keyring, "customers", &customer.name, customer.id).await?);
    }
    note("Customers: a UUIDv7, shown as text");
    table(columns, 0, rows);
    let mut rows = Vec::new();
    for order in &orders {
        rows.push(row(&shop, &keyring, "orders", &order.item, order.id).await?);
    }
    note("Orders: a structured key (a sequence number and a nonce), shown as a UUID");
    table(columns, 0, rows);
    let mut rows = Vec::new();
    for invoice in &invoices {
        let total = format!("{}.{:02}", invoice.cents / 100, invoice.cents % 100);
        rows.push(row(&shop, &keyring, "invoices", &total, invoice.id).await?);
    }
    note("Invoices: an integer created by the database, shown as text");
    table(columns, 0, rows);

    heading("2  Open: an external id finds its row by primary key, without a lookup table");
    let mut rows = Vec::new();
    for customer in &customers {
        // A handler gets a string from the URL.
        let requested: External<Customer> = keyring.seal(customer.id).to_string().parse()?;
        let found =
            shop.customer(keyring.open(requested)?).await?.ok_or("the customer does not exist")?;
        rows.push([requested.to_string(), found.name]);
    }
    table(["GET /customers/{id}", "response"], 1, rows);

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

    heading("4  Rejected ids");
    rejections(&shop, &keyring, &customers[0], &invoices[0]).await?;

    heading("5  Rotate the secret, renew the ids, retire the old secret");
    let second = MasterSecret::generate();
    let rotating = Keyring::builder().sealing(1, second.clone()).opening(0, first).build()?;
    let retired = Keyring::builder().sealing(1, second).build()?;
    let mut rows = Vec::new();
    for customer in &customers {
        let old = keyring.seal(customer.id);
        let new = rotating.renew(old)?;
        if rotating.open(old)? != customer.id || retired.open(new)? != customer.id {
            return Err("a renewed id opened as another row".into());
        }
        // Customer ids have no tag, so an id counts as genuine only after its row is found.
        rotating.confirm(old);
        rows.push([customer.name.clone(), old.to_string(), new.to_string()]);
    }
    table(["customer", "old id (key id 0)", "renewed id (key id 1)"], 0, rows);
    let counts = rotating.key_ids().map(|key_id| {
        let check = rotating.check_value(key_id).map(|value| value.to_string()).unwrap_or_default();
        [key_id.to_string(), check, rotating.opened_count(key_id).to_string()]
    });
    table(["key id", "check value", "ids opened"], 2, counts);
    let old = keyring.seal(customers[0].id);
    table(
        ["requested id", "rejected by", "reason"],
        2,
        [rejected("an id sealed with a retired secret", old, "the keyring", retired.open(old))?],
    );
    note("The database did not change: same rows, same keys, new ids.");
    Ok(())
}

async fn fill(shop: &Shop) -> Result<(Vec<Customer>, Vec<Order>, Vec<Invoice>)> {
    let mut customers = Vec::new();
    for name in ["Ada", "Grace", "Barbara"] {
        let customer = Customer { id: Internal::generate(), name: name.into() };
        shop.insert_customer(&customer).await?;
        customers.push(customer);
    }
    let mut orders = Vec::new();
    for (sequence, item) in (1..).zip(["loom", "compiler"]) {
        let id = Internal::from_key(StructuredKey::with_sequence(sequence)?)?;
        let order = Order { id, customer: customers[0].id, item: item.into() };
        shop.insert_order(&order).await?;
        orders.push(order);
    }
    let mut invoices = Vec::new();
    for cents in [12_900, 4_990, 999, 125_000, 7_500] {
        // The database creates the key.
        let id = shop.insert_invoice(orders[0].id, cents).await?;
        invoices.push(Invoice { id, cents });
    }
    Ok((customers, orders, invoices))
}

/// Returns a table row: a name, the stored key and its external id.
async fn row<T: SealedResource<Internal = Internal<T>>>(
    shop: &Shop,
    keyring: &Keyring,
    table: &'static str,
    name: &str,
    id: Internal<T>,
) -> Result<[String; 3]>
where
    Internal<T>: shop::Stored,
{
    let stored = shop.stored_key(table, id).await?;
    Ok([name.into(), stored, keyring.seal(id).to_string()])
}

/// Tries an attacker's ids, and fails if one is accepted.
async fn rejections(
    shop: &Shop,
    keyring: &Keyring,
    customer: &Customer,
    invoice: &Invoice,
) -> Result {
    let mut rows = Vec::new();

    let id = keyring.seal(invoice.id).to_string();
    let neighbor: External<Invoice> = replace_last(&id).parse()?;
    rows.push(rejected("a guessed neighbor", neighbor, "its 64-bit tag", keyring.open(neighbor))?);

    let id = keyring.seal(customer.id).to_string();
    let tampered: External<Customer> = replace_last(&id).parse()?;
    rows.push(match keyring.open(tampered) {
        // One in 64 opens as a valid UUIDv7, and then the database has no such row.
        Ok(key) => {
            let found = shop.customer(key).await?.ok_or("no such row");
            rejected("a tampered id", tampered, "the database", found)?
        }
        error => rejected("a tampered id", tampered, "the keyring", error)?,
    });

    let other = keyring.seal(invoice.id);
    let parsed = other.to_string().parse::<External<Customer>>();
    rows.push(rejected("an invoice id for a customer", other, "its prefix", parsed)?);

    let upper = keyring.seal(customer.id).to_string().to_uppercase();
    let parsed = upper.parse::<External<Customer>>();
    rows.push(rejected("the same id in upper case", upper, "its text", parsed)?);

    let raw = format!("{}", customer.id.expose_key());
    let parsed = raw.parse::<External<Customer>>();
    let status = parsed.map_or_else(|error| error.http_status(), |_| 200);
    rows.push(rejected("the raw key", raw, "its text", parsed)?);

    table(["requested id", "rejected by", "reason"], 2, rows);
    note(&format!(
        "The client gets the same {status} for each of these; the reason goes to the log."
    ));
    Ok(())
}

fn replace_last(id: &str) -> String {
    let (head, last) = id.split_at(id.len() - 1);
    format!("{head}{}", if last == "0" { "1" } else { "0" })
}
