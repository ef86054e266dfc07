//! Ranges of keys, and sequences.

use diesel::sql_types::{Integer, Nullable, Text};
use opaque_id_core::page::PageRequest;
use opaque_id_core::{IdRange, Position};
use opaque_id_diesel::{Id, PageSql, SqlPart};
use opaque_id_sql::Dialect;
use opaque_id_tests::conformance::keys::{KeyShop, Person, SELECT_PEOPLE, Sorted};
use opaque_id_tests::conformance::shop::UserOf;
use opaque_id_tests::{Result, sequence_calls};

use super::shop::all;
use super::*;

impl KeyShop for DieselShop {
    sequence_calls!(Sequence, self, &mut *self.connection().await?, done);

    async fn users_between(&self, range: IdRange<Internal<User>>) -> Result<Vec<UserOf<Self>>> {
        let is_between = users::id.between(range.first(), range.last());
        let users = users::table.filter(is_between).order(users::id);
        Ok(all(run!(self.load::<User>(users))?))
    }

    async fn users_of_page(
        &self,
        page: &PageRequest<Position<Internal<User>>>,
    ) -> Result<Vec<UserOf<Self>>> {
        let is_between = users::id.between(page.range().first(), page.range().last());
        let users = users::table.filter(is_between).limit(page.fetch().into()).into_boxed();
        let users = match page.is_descending() {
            true => users.order(users::id.desc()),
            false => users.order(users::id),
        };
        Ok(all(run!(self.load::<User>(users))?))
    }

    async fn people_of_page(
        &self,
        page: PageSql<'_, Sorted, Internal<Team>>,
        limit: u32,
    ) -> Result<Vec<Person<Self>>> {
        let (condition, order) = (page.condition_from(1), page.order_by());
        let text = format!("{SELECT_PEOPLE}{condition} ORDER BY {order} LIMIT {limit}");
        let mut people = diesel::sql_query(text).into_boxed();
        for part in page.condition() {
            people = match part {
                SqlPart::Sql(_) => people,
                SqlPart::Value("nickname", (nickname, ..)) => {
                    people.bind::<Nullable<Text>, _>(nickname)
                }
                SqlPart::Value("score", (_, score, _)) => {
                    people.bind::<Nullable<Integer>, _>(score)
                }
                SqlPart::Value(_, (.., seen)) => people.bind::<Text, _>(seen),
                SqlPart::Key(id) => people.bind::<Id<Team>, _>(id),
            };
        }
        let people = run!(self.load::<PersonRow>(people))?.into_iter();
        Ok(people.map(|row| (row.id, row.nickname, row.score, row.seen_text)).collect())
    }
}

#[derive(diesel::QueryableByName)]
struct PersonRow {
    #[diesel(sql_type = Id<Team>)]
    id: Internal<Team>,
    #[diesel(sql_type = Nullable<Text>)]
    nickname: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    score: Option<i32>,
    #[diesel(sql_type = Text)]
    seen_text: String,
}
