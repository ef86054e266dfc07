//! Ranges of keys, and sequences.

use opaque_id_core::page::PageRequest;
use opaque_id_core::{IdRange, Position};
use opaque_id_sql::Dialect;
use opaque_id_tests::conformance::keys::{KeyShop, Nickname, Person};
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

    async fn legacy_between(
        &self,
        range: IdRange<Internal<Legacy>>,
    ) -> Result<Vec<Internal<Legacy>>> {
        let is_between = legacy::id.between(range.first(), range.last());
        let ids = legacy::table.select(legacy::id).filter(is_between).order(legacy::id);
        Ok(run!(self.load(ids))?)
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
        page: &PageRequest<Nickname<Self>>,
    ) -> Result<Vec<Person<Self>>> {
        use people::{id, nickname};

        let mut people = people::table.limit(page.fetch().into()).into_boxed();
        if let Some((name, key)) = page.position() {
            people = match (name, page.is_descending()) {
                (Some(name), false) => people.filter(
                    nickname.gt(name).or(nickname.eq(name).and(id.gt(key))).or(nickname.is_null()),
                ),
                (None, false) => people.filter(nickname.is_null().and(id.gt(key))),
                (Some(name), true) => {
                    people.filter(nickname.lt(name).or(nickname.eq(name).and(id.lt(key))))
                }
                (None, true) => people.filter(nickname.is_not_null().or(id.lt(key))),
            };
        }
        let people = match page.is_descending() {
            true => people.order((nickname.is_null().desc(), nickname.desc(), id.desc())),
            false => people.order((nickname.is_null(), nickname, id)),
        };
        Ok(run!(self.load(people))?)
    }
}
