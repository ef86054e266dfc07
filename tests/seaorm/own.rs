//! Features of SeaORM alone: save, both entity formats, relations, schemas from entities, arrays.

use opaque_id_packs::{ByKey, Json, Settings};
use opaque_id_seaorm::migration::{create_map, create_sequences, drop_map, drop_sequences};
use opaque_id_seaorm::{External, Internal, UuidMap};
use opaque_id_sql::Dialect;
use sea_orm::entity::prelude::*;
#[cfg(feature = "older")]
use sea_orm::sea_query::extension::postgres::PgFunc;
use sea_orm::{ActiveValue, DbBackend, QueryOrder, QueryTrait, Set, Statement};
#[cfg(not(feature = "older"))]
use sea_orm::{EntityLoaderTrait, ExprTrait};
use sea_orm_migration::MigratorTrait;

use crate::columns::a_request_encrypts;
use crate::entity::{earlier_team, earlier_user, number, team, unsigned_number, user};
use crate::mapping::Invoice;
use crate::migration;
use crate::shop::{SeaOrmShop, create_table, one};
use opaque_id_tests::conformance::packs::{PackShop, keyring};
use opaque_id_tests::conformance::report::Outcome::{NotApplicable, Passed};
use opaque_id_tests::conformance::report::{Cases, Verdict};
use opaque_id_tests::conformance::shop::{Shop, generate};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::{Result, cases, sql};

pub(crate) fn cases() -> Cases {
    let mut cases: Cases = cases! {
        SeaOrmShop, |shop, database, case| {
            shop.create_tables(database).await?;
            case(&shop.connection).await
        };
        newtypes
        what_no_type_closes
        active_models_save
        active_models_of_integers_save
        relations
        relations_in_the_earlier_format
        cursor_backwards
        list_as_one_parameter
        migrate_down
        tables_of_entities
    };
    let of_databases: Cases = cases! {
        SeaOrmShop, |shop, database, case| case(&shop, database).await;
        a_call_keeps_its_connection
        a_request_encrypts
    };
    cases.extend(of_databases);
    cases
}

/// After a failover, another connection of the pool may lead to a server without the first half of the call.
async fn a_call_keeps_its_connection(shop: &SeaOrmShop, database: &Database) -> Verdict {
    if database.kind != Engine::Postgres {
        return Ok(NotApplicable);
    }
    database.execute(&SeaOrmShop::create_packs::<user::Model, ByKey, Json>(Dialect::Postgres))?;
    let [old, new] = [keyring(0)?, keyring(1)?];
    let settings = Settings::default;
    let packs = shop.open_packs::<user::Model, ByKey, Json>(&old, settings()).await?;
    shop.put_all(&packs, &[(generate(), "one".to_owned()), (generate(), "two".to_owned())]).await?;
    let packs = shop.open_packs::<user::Model, ByKey, Json>(&new, settings()).await?;
    let url = database.url.clone();
    let close = move |_| {
        sql::execute(
            Engine::Postgres,
            &url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user",
        )
        .expect("a second connection");
    };
    assert!(shop.rekey(&packs, close).await.is_err());
    assert!(shop.rekey(&packs, |_| {}).await?.rows > 0);
    Ok(Passed)
}

async fn add_team(db: &DatabaseConnection, name: &str) -> Result<team::Model> {
    let team = team::ActiveModel { name: Set(name.into()), ..Default::default() };
    Ok(team.insert(db).await?)
}

async fn add_users(
    db: &DatabaseConnection,
    team: Option<&team::Model>,
    count: usize,
) -> Result<Vec<user::Model>> {
    let mut users = Vec::new();
    for number in 0..count {
        let user = user::ActiveModel {
            id: Set(Internal::generate()),
            team_id: Set(team.map(|team| team.id)),
            name: Set(format!("user {number}")),
        };
        users.push(user.insert(db).await?);
    }
    Ok(users)
}

async fn what_no_type_closes(db: &DatabaseConnection) -> Verdict {
    let user = add_users(db, None, 1).await?.remove(0);
    let key: Uuid = user.id.expose_key().into();
    // The query bypasses the model's types.
    let json = user::Entity::find().into_json().one(db).await?.ok_or("a row")?;
    let bytes: Vec<u8> = key.into_bytes().into();
    assert!(json["id"] == key.to_string() || json["id"] == serde_json::json!(bytes), "{json}");
    // The case covers `Debug` of values and `Display` of statements.
    let value = format!("{:?}", sea_orm::Value::from(user.id));
    let statement = user::Entity::find_by_id(user.id).build(db.get_database_backend()).to_string();
    for printed in [value, statement] {
        let printed = printed.to_lowercase().replace('-', "");
        let bytes = format!("{bytes:?}").replace(['[', ']'], "");
        let shows = printed.contains(&key.simple().to_string()) || printed.contains(&bytes);
        assert!(shows, "{printed}");
    }
    // SeaORM has one bound for `eq` and for these, so a client's made-up id pages as well.
    let made_up: Internal<user::Model> =
        opaque_id_tests::conformance::cases::opened_made_up_id::<user::Model>();
    let after = usize::from(user.id > made_up);
    let id = user::Column::Id;
    for (filter, count) in [
        (id.gt(made_up).and(id.gte(made_up)), after),
        (id.lt(made_up).and(id.lte(made_up)), 1 - after),
        (id.between(made_up, made_up), 0),
        (id.not_between(made_up, made_up), 1),
    ] {
        let found = user::Entity::find().filter(filter).all(db).await?;
        assert_eq!(found.len(), count);
    }
    let mut cursor = user::Entity::find().cursor_by(id);
    assert_eq!(cursor.after(made_up).all(db).await?.len(), after);
    let mut cursor = user::Entity::find().cursor_by(id);
    assert_eq!(cursor.before(made_up).all(db).await?.len(), 1 - after);
    opaque_id_tests::conformance::cases::says_what_no_type_closes(
        "SeaORM: `cursor_by(…).after(id)`, `.before(id)`, `Column::Id.gt(id)`, `.gte(id)`, `.lt(id)`, `.lte(id)`, `.between(…)`, \
         `.not_between(…)`",
    );
    Ok(Passed)
}

async fn active_models_save(db: &DatabaseConnection) -> Verdict {
    let team = team::ActiveModel { name: Set("Analysts".into()), ..Default::default() };
    // The model is inserted because it has no key yet, and then updated.
    let mut team = team.save(db).await?;
    let id = team.id.clone().unwrap();
    team.name = Set("Admirals".into());
    team.save(db).await?;
    let found = team::Entity::find_by_id(id).one(db).await?.ok_or("no team")?;
    assert_eq!(found.name, "Admirals");

    let mut user: user::ActiveModel = add_users(db, None, 1).await?.remove(0).into();
    let id = user.id.clone().unwrap();
    user.team_id = Set(Some(found.id));
    assert!(matches!(user.id, ActiveValue::Unchanged(_)));
    let user = user.update(db).await?;
    assert_eq!((user.id, user.team_id), (id, Some(found.id)));
    assert!(!format!("{user:?}").contains(&id.expose_key().to_string()));
    user.delete(db).await?;
    assert_eq!(user::Entity::find_by_id(id).one(db).await?, None);
    Ok(Passed)
}

/// The database creates the keys of these entities' tables.
async fn active_models_of_integers_save(db: &DatabaseConnection) -> Verdict {
    create_table(db, number::Entity).await?;
    let team = add_team(db, "Analysts").await?;
    let first =
        number::ActiveModel { next_id: Set(None), team_id: Set(team.id), ..Default::default() };
    let first = first.insert(db).await?;
    let second = number::ActiveModel {
        next_id: Set(Some(first.id)),
        team_id: Set(team.id),
        ..Default::default()
    };
    let second = number::Entity::insert(second).exec(db).await?;
    let found =
        number::Entity::find_by_id(second.last_insert_id).one(db).await?.ok_or("no number")?;
    assert_eq!(found.next_id, Some(first.id));
    assert!(first.id < found.id);

    if db.get_database_backend() == DbBackend::MySql {
        create_table(db, unsigned_number::Entity).await?;
        let number = unsigned_number::ActiveModel { team_id: Set(team.id), ..Default::default() };
        let number = number.insert(db).await?;
        let found = unsigned_number::Entity::find_by_id(number.id).one(db).await?;
        assert_eq!(found, Some(number));
    }
    Ok(Passed)
}

/// An entity with newtypes of the application as ids.
mod member {
    use opaque_id_seaorm::{IdNewtype, Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use crate::entity::team;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
    pub struct MemberId(pub Internal<Model>);

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
    pub struct TeamId(Internal<team::Model>);

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user", internal = MemberId)]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: MemberId,
        pub team_id: Option<TeamId>,
        pub name: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

async fn newtypes(db: &DatabaseConnection) -> Verdict {
    let team = add_team(db, "Analysts").await?;
    let id = member::MemberId(Internal::generate());
    let new = member::ActiveModel {
        id: Set(id),
        team_id: Set(Some(team.id.into())),
        name: Set("Ada".into()),
    };
    let member = new.insert(db).await?;
    assert_eq!(member::Entity::find_by_id(id).one(db).await?, Some(member.clone()));
    let of_team = member::Entity::find().filter(member::Column::TeamId.eq(team.id));
    let of_team = of_team.filter(member::Column::Id.is_in([id]));
    assert_eq!(of_team.all(db).await?, [member]);
    let keyring = opaque_id_tests::conformance::mapping::keyring()?;
    let external: External<member::Model> = keyring.seal(id);
    assert_eq!(keyring.open(external)?, id);
    if db.get_database_backend() == DbBackend::Postgres {
        let select = "SELECT array_agg(id) AS ids FROM users";
        let row = one(db, Statement::from_string(DbBackend::Postgres, select)).await?;
        assert_eq!(row.try_get::<Vec<member::MemberId>>("", "ids")?, [id]);
    }
    Ok(Passed)
}

async fn relations(db: &DatabaseConnection) -> Verdict {
    let analysts = add_team(db, "Analysts").await?;
    let admirals = add_team(db, "Admirals").await?;
    let users = add_users(db, Some(&analysts), 3).await?;
    let with_users = team::Entity::find()
        .order_by_asc(team::Column::Id)
        .find_with_related(user::Entity)
        .order_by_asc(user::Column::Id)
        .all(db)
        .await?;
    assert_eq!(with_users, [(analysts.clone(), users.clone()), (admirals, vec![])]);
    assert_eq!(users[0].find_related(team::Entity).one(db).await?, Some(analysts.clone()));
    #[cfg(not(feature = "older"))]
    assert_eq!(load_team_of(db, &users[1]).await?, Some(analysts.id));
    Ok(Passed)
}

#[cfg(not(feature = "older"))]
async fn load_team_of(
    db: &DatabaseConnection,
    user: &user::Model,
) -> Result<Option<Internal<team::Model>>> {
    let loaded = user::Entity::load()
        .filter_by_id(user.id)
        .with(team::Entity)
        .one(db)
        .await?
        .ok_or("no user")?;
    assert_eq!(loaded.id, user.id);
    Ok(loaded.team.into_option().map(|team| team.id))
}

async fn relations_in_the_earlier_format(db: &DatabaseConnection) -> Verdict {
    let analysts = add_team(db, "Analysts").await?;
    let users = add_users(db, Some(&analysts), 2).await?;
    let with_users = earlier_team::Entity::find()
        .find_with_related(earlier_user::Entity)
        .order_by_asc(earlier_user::Column::Id)
        .all(db)
        .await?;
    assert_eq!(with_users[0].0.id, analysts.id);
    let ids: Vec<_> = with_users[0].1.iter().map(|user| user.id).collect();
    assert_eq!(ids, [users[0].id, users[1].id]);
    let user = earlier_user::Entity::find_by_id(users[0].id).one(db).await?.ok_or("no user")?;
    assert_eq!(user.team_id, Some(analysts.id));
    Ok(Passed)
}

async fn cursor_backwards(db: &DatabaseConnection) -> Verdict {
    let users = add_users(db, None, 10).await?;
    let page = user::Entity::find()
        .cursor_by(user::Column::Id)
        .before(users[8].id)
        .last(3)
        .all(db)
        .await?;
    assert_eq!(page, users[5..8]);
    Ok(Passed)
}

/// Reads an array on PostgreSQL.
async fn list_as_one_parameter(db: &DatabaseConnection) -> Verdict {
    if db.get_database_backend() != DbBackend::Postgres {
        return Ok(NotApplicable);
    }
    let users = add_users(db, None, 3).await?;
    let ids = vec![users[0].id, users[2].id];
    #[cfg(feature = "older")]
    let is_one = Expr::col((user::Entity, user::Column::Id)).eq(PgFunc::any(ids));
    #[cfg(not(feature = "older"))]
    let is_one = user::Column::Id.eq_any(ids);
    let found = user::Entity::find().filter(is_one).order_by_asc(user::Column::Id).all(db).await?;
    assert_eq!(found, [users[0].clone(), users[2].clone()]);
    let select = "SELECT array_agg(id ORDER BY id) AS ids FROM users";
    let row = one(db, Statement::from_string(DbBackend::Postgres, select)).await?;
    let ids: Vec<Internal<user::Model>> = row.try_get("", "ids")?;
    assert_eq!(ids, [users[0].id, users[1].id, users[2].id]);
    Ok(Passed)
}

async fn migrate_down(db: &DatabaseConnection) -> Verdict {
    let map = UuidMap::<Invoice>::unique("dropped_invoices");
    // A second run would fail if the first one left a table.
    for _ in 0..2 {
        create_map(db, &map).await?;
        create_sequences(db).await?;
        drop_map(db, &map).await?;
        drop_sequences(db).await?;
    }
    migration::Migrator::down(db, None).await?;
    assert!(user::Entity::find().all(db).await.is_err());
    migration::Migrator::up(db, None).await?;
    add_users(db, None, 1).await?;
    Ok(Passed)
}

/// Creates the tables from the models.
async fn tables_of_entities(db: &DatabaseConnection) -> Verdict {
    migration::Migrator::down(db, None).await?;
    create_table(db, team::Entity).await?;
    create_table(db, user::Entity).await?;
    let team = add_team(db, "Analysts").await?;
    let users = add_users(db, Some(&team), 2).await?;
    let found = user::Entity::find().order_by_asc(user::Column::Id).all(db).await?;
    assert_eq!(found, users);
    Ok(Passed)
}
