//! Ranges of keys, and sequences.

use std::convert::identity;

use opaque_id_core::page::PageRequest;
use opaque_id_core::{IdRange, Position};
use opaque_id_sql::Dialect;
use opaque_id_sqlx::{Internal, PageSql, Sequence, SqlPart};
use sqlx::QueryBuilder;

use crate::shop::{Order, SqlxShop, Team, User};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::keys::{KeyShop, Person, SELECT_PEOPLE, Sorted};
use opaque_id_tests::conformance::shop::UserOf;
use opaque_id_tests::sequence_calls;

macro_rules! key_shop {
    ($($database:ty),*) => {$(
        impl KeyShop for SqlxShop<$database> {
            sequence_calls!(Sequence, self, &self.pool, identity);

            async fn users_between(
                &self,
                range: IdRange<Internal<User>>,
            ) -> Result<Vec<UserOf<Self>>> {
                let mut select = Self::select_users("WHERE id BETWEEN ");
                select.push_bind(range.first()).push(" AND ").push_bind(range.last());
                self.users(select.push(" ORDER BY id")).await
            }

            async fn users_of_page(
                &self,
                page: &PageRequest<Position<Internal<User>>>,
            ) -> Result<Vec<UserOf<Self>>> {
                let order = if page.is_descending() { "DESC" } else { "ASC" };
                let (first, last) = (page.range().first(), page.range().last());
                let mut select = Self::select_users("WHERE id BETWEEN ");
                select.push_bind(first).push(" AND ").push_bind(last);
                select.push(format_args!(" ORDER BY id {order} LIMIT "));
                self.users(select.push_bind(i64::from(page.fetch()))).await
            }

            async fn people_of_page(
                &self,
                page: PageSql<'_, Sorted, Internal<Team>>,
                limit: u32,
            ) -> Result<Vec<Person<Self>>> {
                let mut select = QueryBuilder::<$database>::new(SELECT_PEOPLE);
                for part in page.condition() {
                    match part {
                        SqlPart::Sql(sql) => select.push(sql),
                        SqlPart::Value("nickname", (nickname, ..)) => select.push_bind(nickname.clone()),
                        SqlPart::Value("score", (_, score, _)) => select.push_bind(*score),
                        SqlPart::Value(_, (.., seen)) => select.push_bind(seen.clone()),
                        SqlPart::Key(id) => select.push_bind(*id),
                    };
                }
                select.push(" ORDER BY ").push(page.order_by());
                select.push(" LIMIT ").push_bind(i64::from(limit));
                Ok(select.build_query_as().fetch_all(&self.pool).await?)
            }
        }
    )*};
}

key_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
