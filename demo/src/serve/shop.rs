//! The shop's tables, on SQLite, PostgreSQL or MySQL.

#![expect(unreachable_pub, reason = "what SeaORM's derives write is public")]

use std::time::Duration;

use opaque_id_seaorm::key::StructuredKey;
use opaque_id_seaorm::migration::{id_column, pk_id};
use opaque_id_seaorm::{External, Internal, Keyring, MasterSecret, OpaqueId};
use sea_orm::sea_query::{ColumnDef, ForeignKey, Table};
use sea_orm::{
    ActiveModelTrait, ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbErr,
    EntityTrait, PaginatorTrait, Set, TransactionTrait, Value,
};
use url::Url;

use crate::Result;

pub(crate) mod customer {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "demo_customers")]
    #[opaque_id(prefix = "cus")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<Model>,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod order {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::customer;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "demo_orders")]
    #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<Model>,
        pub customer: Internal<customer::Model>,
        pub item: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod invoice {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::order;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "demo_invoices")]
    #[opaque_id(prefix = "inv", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub order: Internal<order::Model>,
        pub cents: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) trait Resource:
    EntityTrait<Model: OpaqueId<Internal: Into<Value>> + Send + Sync>
{
    const ID: Self::Column;

    fn id(row: &Self::Model) -> <Self::Model as OpaqueId>::Internal;
}

macro_rules! resources {
    ($($module:ident)*) => {$(
        impl Resource for $module::Entity {
            const ID: Self::Column = $module::Column::Id;

            fn id(row: &Self::Model) -> Internal<Self::Model> {
                row.id
            }
        }
    )*};
}

resources!(customer order invoice);

pub(crate) async fn open(url: &str) -> Result<DatabaseConnection> {
    // SeaORM panics for a text that is not a URL, and its errors repeat the password.
    match Url::parse(url).as_ref().map(Url::scheme) {
        Ok("sqlite" | "postgres" | "postgresql" | "mysql") => (),
        _ => return Err("expected a DATABASE_URL such as sqlite://shop.db?mode=rwc, postgres://user@host/shop or mysql://user@host/shop".into()),
    }
    let mut options = ConnectOptions::new(url);
    options.sqlx_logging(false).acquire_timeout(Duration::from_secs(5));
    let database = Database::connect(options).await?;
    create_tables(&database).await?;
    if customer::Entity::find().count(&database).await? == 0 {
        fill(&database).await?;
    }
    Ok(database)
}

async fn create_tables(database: &DatabaseConnection) -> std::result::Result<(), DbErr> {
    let backend = database.get_database_backend();
    let text = |name: &'static str| ColumnDef::new(name).string().not_null().take();
    let customers = Table::create()
        .table(customer::Entity)
        .if_not_exists()
        .col(pk_id::<customer::Model>(backend, "id"))
        .col(text("name"))
        .take();
    let orders = Table::create()
        .table(order::Entity)
        .if_not_exists()
        .col(pk_id::<order::Model>(backend, "id"))
        .col(id_column::<customer::Model>(backend, "customer"))
        .col(text("item"))
        .foreign_key(
            ForeignKey::create().from("demo_orders", "customer").to("demo_customers", "id"),
        )
        .take();
    let invoices = Table::create()
        .table(invoice::Entity)
        .if_not_exists()
        .col(pk_id::<invoice::Model>(backend, "id"))
        .col(id_column::<order::Model>(backend, "order"))
        .col(ColumnDef::new("cents").big_integer().not_null())
        .foreign_key(ForeignKey::create().from("demo_invoices", "order").to("demo_orders", "id"))
        .take();
    for table in [customers, orders, invoices] {
        database.execute(&table).await?;
    }
    Ok(())
}

/// The first row of each table has the key of the examples in the OpenAPI document.
async fn fill(database: &DatabaseConnection) -> Result {
    const NAMES: [&str; 12] = [
        "Ada", "Barbara", "Radia", "Edsger", "Frances", "Grace", "Hedy", "Jean", "Karen", "Lynn",
        "Margaret", "Sophie",
    ];
    const ITEMS: [&str; 5] = ["loom", "compiler", "punched cards", "abacus", "teleprinter"];

    let examples = Keyring::builder()
        .sealing(0, MasterSecret::generate())
        .opening(MasterSecret::EXAMPLE_KEY_ID, MasterSecret::example())
        .build()?;
    let transaction = database.begin().await?;
    let mut customers = Vec::new();
    for name in NAMES {
        let customer = customer::ActiveModel {
            id: Set(match customers.is_empty() {
                true => examples.open(External::<customer::Model>::example())?,
                false => Internal::generate(),
            }),
            name: Set(name.to_owned()),
        };
        customers.push(customer.insert(&transaction).await?.id);
    }
    let items = ITEMS.into_iter().cycle();
    for ((number, item), customer) in (1..=100).zip(items).zip(customers.into_iter().cycle()) {
        let order = order::ActiveModel {
            id: Set(match number {
                1 => examples.open(External::<order::Model>::example())?,
                _ => Internal::from_key(StructuredKey::with_sequence(number)?)?,
            }),
            customer: Set(customer),
            item: Set(item.to_owned()),
        };
        let order = order.insert(&transaction).await?.id;
        let invoice = invoice::ActiveModel {
            order: Set(order),
            cents: Set(999 + 1_250 * i64::try_from(number % 17)?),
            ..Default::default()
        };
        invoice.insert(&transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}
