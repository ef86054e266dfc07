//! An adapter on a connection. Its parent module defines the names, so each file here is a module of each
//! connection.

/// Runs a query on a connection of the shop.
macro_rules! run {
    ($shop:ident.$method:ident $(::<$row:ty>)? ($query:expr)) => {
        done($query.$method$(::<$row>)?(&mut *$shop.connection().await?)).await
    };
}

/// Reads an expression of SQL as an id of a type of column.
macro_rules! read_ids {
    ($($name:ident: $column:ty => $id:ty),*) => {
        $(async fn $name(&self, expression: &str) -> Result<$id> {
            let expression = diesel::dsl::sql::<$column>(&format!("{expression} AS id"));
            Ok(run!(self.get_result(diesel::select(expression)))?)
        })*
    };
}

mod columns;
mod integers;
mod keys;
mod mapping;
pub(crate) mod own;
mod shop;
mod types;

use diesel::prelude::{
    BelongingToDsl, BoolExpressionMethods, ExpressionMethods, GroupedBy, NullableExpressionMethods,
    OptionalExtension, QueryDsl, SelectableHelper,
};
use opaque_id_diesel::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;

use super::*;
use crate::rows::*;

pub(crate) struct DieselShop {
    connections: connections::Connections,
}

impl DieselShop {
    async fn open(database: &Database, connections: u32) -> Result<Self> {
        let url = database.path_or_url();
        Ok(Self {
            connections: connections::Connections::open(url, database.kind, connections).await?,
        })
    }

    pub(crate) async fn connection(&self) -> Result<connections::Connection<'_>> {
        self.connections.get().await
    }
}
