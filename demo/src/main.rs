//! A small shop: good keys in SQLite, opaque ids outside. `cargo run -p demo`.

mod shop;
mod show;

use std::error::Error;

use opaque_id_sqlx::{
    Cursor, External, Internal, Keyring, MasterSecret, SealedResource, StructuredKey,
};
use shop::{Customer, Invoice, Order, Shop};
use show::{heading, note, refused, table};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let shop = Shop::open(&folder.path().join("shop.sqlite")).await?;
    let first = MasterSecret::generate();
    let keyring = Keyring::builder().sealing(0, first.clone()).build()?;

    heading("1  What the database holds, and what the API shows");
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
    note("Orders: a structured key (a sequence, then a nonce), shown as a UUID");
    table(columns, 0, rows);
    let mut rows = Vec::new();
    for invoice in &invoices {
        let total = format!("{}.{:02}", invoice.cents / 100, invoice.cents % 100);
        rows.push(row(&shop, &keyring, "invoices", &total, invoice.id).await?);
    }
    note("Invoices: an integer, made by the database, shown as text");
    table(columns, 0, rows);

    heading("2  Open: an external id finds its row by primary key, without a look-up table");
    let mut rows = Vec::new();
    for customer in &customers {
        // What a handler gets from the URL is a string.
        let asked: External<Customer> = keyring.seal(customer.id).to_string().parse()?;
        let found = shop
            .customer(keyring.open(asked)?)
            .await?
            .ok_or("the customer is gone")?;
        rows.push([asked.to_string(), found.name]);
    }
    table(["GET /customers/{id}", "answer"], 1, rows);

    heading("3  List with a cursor: a page is an ordered range scan over internal keys");
    let mut rows = Vec::new();
    let mut after: Option<Cursor<Invoice>> = None;
    for page in 1.. {
        let position = after
            .map(|cursor| keyring.open_cursor(cursor))
            .transpose()?;
        let invoices = shop.invoices_after(position, 2).await?;
        let Some(last) = invoices.last() else { break };
        let asked = after.map_or("-".into(), |cursor| cursor.to_string());
        let ids = keyring.seal_all(invoices.iter().map(|invoice| invoice.id));
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        rows.push([page.to_string(), asked, ids.join("\n")]);
        after = Some(keyring.seal_cursor(last.id));
    }
    table(["page", "after", "ids on the page, oldest first"], 0, rows);

    heading("4  What is refused");
    refusals(&shop, &keyring, &customers[0], &invoices[0]).await?;

    heading("5  Rotate the secret, renew the ids, retire the old secret");
    let second = MasterSecret::generate();
    let rotating = Keyring::builder()
        .sealing(1, second.clone())
        .opening(0, first)
        .build()?;
    let retired = Keyring::builder().sealing(1, second).build()?;
    let mut rows = Vec::new();
    for customer in &customers {
        let old = keyring.seal(customer.id);
        let new = rotating.renew(old)?;
        if rotating.open(old)? != customer.id || retired.open(new)? != customer.id {
            return Err("a renewed id opens to another row".into());
        }
        // Customers' ids carry no tag, so they count once their row is found.
        rotating.confirm(old);
        rows.push([customer.name.clone(), old.to_string(), new.to_string()]);
    }
    table(
        ["customer", "old id (key id 0)", "renewed id (key id 1)"],
        0,
        rows,
    );
    let counts = rotating.key_ids().map(|key_id| {
        let check = rotating
            .check_value(key_id)
            .map(|value| value.to_string())
            .unwrap_or_default();
        [
            key_id.to_string(),
            check,
            rotating.opened_count(key_id).to_string(),
        ]
    });
    table(["key id", "check value", "ids opened with it"], 2, counts);
    let old = keyring.seal(customers[0].id);
    table(
        ["asked for", "refused by", "why"],
        2,
        [refused(
            "an id of a retired secret",
            old,
            "the keyring",
            retired.open(old),
        )?],
    );
    note("Nothing was written to the database: the same rows, the same keys, new ids.");
    Ok(())
}

/// Makes and stores a few resources of each kind.
async fn fill(shop: &Shop) -> Result<(Vec<Customer>, Vec<Order>, Vec<Invoice>)> {
    let mut customers = Vec::new();
    for name in ["Ada", "Grace", "Barbara"] {
        let customer = Customer {
            id: Internal::generate(),
            name: name.into(),
        };
        shop.insert_customer(&customer).await?;
        customers.push(customer);
    }
    let mut orders = Vec::new();
    for (sequence, item) in (1..).zip(["loom", "compiler"]) {
        let id = Internal::from_key(StructuredKey::with_sequence(sequence)?)?;
        let order = Order {
            id,
            customer: customers[0].id,
            item: item.into(),
        };
        shop.insert_order(&order).await?;
        orders.push(order);
    }
    let mut invoices = Vec::new();
    for cents in [12_900, 4_990, 999, 125_000, 7_500] {
        // The database makes the key.
        let id = shop.insert_invoice(orders[0].id, cents).await?;
        invoices.push(Invoice { id, cents });
    }
    Ok((customers, orders, invoices))
}

/// A row beside its external id.
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

/// Tries what an attacker would, and fails if anything gets through.
async fn refusals(
    shop: &Shop,
    keyring: &Keyring,
    customer: &Customer,
    invoice: &Invoice,
) -> Result<()> {
    let mut rows = Vec::new();

    let id = keyring.seal(invoice.id).to_string();
    let neighbour: External<Invoice> = replace_last(&id).parse()?;
    rows.push(refused(
        "a guessed neighbour",
        neighbour,
        "its 64-bit tag",
        keyring.open(neighbour),
    )?);

    let id = keyring.seal(customer.id).to_string();
    let tampered: External<Customer> = replace_last(&id).parse()?;
    rows.push(match keyring.open(tampered) {
        // One in 64 looks like a UUIDv7; then the database says no.
        Ok(key) => {
            let found = shop.customer(key).await?.ok_or("no such row");
            refused("a tampered id", tampered, "the database", found)?
        }
        refusal => refused("a tampered id", tampered, "the keyring", refusal)?,
    });

    let other = keyring.seal(invoice.id);
    let parsed = other.to_string().parse::<External<Customer>>();
    rows.push(refused(
        "an invoice's id for a customer",
        other,
        "its prefix",
        parsed,
    )?);

    let upper = keyring.seal(customer.id).to_string().to_uppercase();
    let parsed = upper.parse::<External<Customer>>();
    rows.push(refused(
        "the same id in capitals",
        upper,
        "its text",
        parsed,
    )?);

    let raw = format!("{}", customer.id.expose_key());
    let parsed = raw.parse::<External<Customer>>();
    rows.push(refused("the raw key", raw, "its text", parsed)?);

    table(["asked for", "refused by", "why"], 2, rows);
    note("To a client each of these is the same 404; the reason goes to the log.");
    Ok(())
}

/// The id with another last character.
fn replace_last(id: &str) -> String {
    let (head, last) = id.split_at(id.len() - 1);
    format!("{head}{}", if last == "0" { "1" } else { "0" })
}
