//! Many rows in one statement.

use opaque_id_tests::Result;

use super::*;
use crate::rows::{User, users};

pub(crate) async fn insert_users(connection: &mut DbConnection, users: Vec<User>) -> Result {
    let insert = diesel::insert_into(users::table).values(users);
    done(insert.execute(connection)).await?;
    Ok(())
}
