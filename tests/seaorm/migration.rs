//! The tables, created by sea-orm-migration.

use opaque_id_seaorm::migration::{id_column, id_column_null, pk_id};
use sea_orm_migration::prelude::{
    DbErr, DeriveMigrationName, ForeignKey, MigrationTrait, MigratorTrait, SchemaManager, Table,
    async_trait,
};
use sea_orm_migration::schema::string;

use crate::entity::{Event, Order, legacy, team, user};

pub(crate) struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(CreateTables)]
    }
}

#[derive(DeriveMigrationName)]
struct CreateTables;

#[async_trait::async_trait]
impl MigrationTrait for CreateTables {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let backend = manager.get_database_backend();
        let teams = Table::create()
            .table("teams")
            .col(pk_id::<team::Model>(backend, "id"))
            .col(string("name"))
            .to_owned();
        let users = Table::create()
            .table("users")
            .col(pk_id::<user::Model>(backend, "id"))
            .col(id_column_null::<team::Model>(backend, "team_id"))
            .col(string("name"))
            .foreign_key(ForeignKey::create().from("users", "team_id").to("teams", "id"))
            .to_owned();
        let stored_keys = Table::create()
            .table("stored_keys")
            .col(pk_id::<Event>(backend, "event_id"))
            .col(id_column::<Order>(backend, "order_id"))
            .col(id_column::<legacy::Model>(backend, "legacy_id"))
            .col(id_column::<team::Model>(backend, "team_id"))
            .to_owned();
        let legacy =
            Table::create().table("legacy").col(pk_id::<legacy::Model>(backend, "id")).to_owned();
        for table in [teams, users, stored_keys, legacy] {
            manager.create_table(table).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["users", "teams", "stored_keys", "legacy"] {
            manager.drop_table(Table::drop().table(table).to_owned()).await?;
        }
        Ok(())
    }
}
