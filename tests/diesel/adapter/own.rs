//! Features of diesel alone: associations, plain columns, aggregates, `debug_query`.

use diesel::dsl::{max, not};
use opaque_id_sql::dialect::Retry;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases;
use opaque_id_tests::conformance::integers::create_sql;
use opaque_id_tests::conformance::keys::KeyShop;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::conformance::report::Outcome::Passed;
use opaque_id_tests::conformance::report::{Cases, Verdict};
use opaque_id_tests::conformance::shop::{Shop, from_key};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;

use super::server::plain_unsigned_columns;
use super::*;

pub(crate) fn cases() -> Cases {
    /// Each case opens its own shops.
    macro_rules! cases {
        ($($case:ident)*) => {
            vec![$((
                stringify!($case),
                |database| DieselShop::block_on($case(database)),
            )),*]
        };
    }
    cases! {
        newtypes
        associations
        plain_columns
        plain_integer_columns
        rows_of_a_multi_connection
        greatest_key
        many_comparisons
        errors_are_recognized_after_a_rollback
        no_sequence_numbers_in_a_transaction
        plain_unsigned_columns
    }
}

async fn open(database: &Database) -> Result<(DieselShop, Internal<Team>, Vec<User>)> {
    let shop = DieselShop::connect(database).await?;
    shop.create_tables(database).await?;
    let team = shop.add_team("Analysts").await?;
    let users = [Some(team), None, Some(team)].map(|team_id| User {
        id: Internal::generate(),
        team_id,
        name: "Ada".into(),
    });
    for user in &users {
        shop.add_user(&user.clone().into()).await?;
    }
    Ok((shop, team, users.into()))
}

async fn associations(database: &Database) -> Verdict {
    let (shop, team, users) = open(database).await?;
    let team: Team = run!(shop.first(teams::table.find(team)))?;
    let members = run!(shop.load::<User>(User::belonging_to(&team).order(users::id)))?;
    assert_eq!(members, [users[0].clone(), users[2].clone()]);
    let grouped = members.clone().grouped_by(std::slice::from_ref(&team));
    assert_eq!(grouped, [members]);
    let left = users::table
        .left_join(teams::table)
        .filter(users::id.ne_all([users[0].id]).and(teams::id.nullable().is_null()))
        .select((User::as_select(), Option::<Team>::as_select()));
    let left = run!(shop.load::<(User, Option<Team>)>(left))?;
    assert_eq!(left, [(users[1].clone(), None)]);
    Ok(Passed)
}

async fn newtypes(database: &Database) -> Verdict {
    let (shop, team, users) = open(database).await?;
    let ada =
        Member { id: UserId(Internal::generate()), team_id: Some(team.into()), name: "Ada".into() };
    run!(shop.execute(diesel::insert_into(users::table).values(&ada)))?;
    let of_team = users::table.filter(users::team_id.eq(TeamId::from(team)));
    let of_team = of_team.filter(users::id.eq_any([ada.id, users[1].id.into()]));
    let of_team = run!(shop.load::<Member>(of_team.select(Member::as_select())))?;
    assert_eq!(of_team, std::slice::from_ref(&ada));
    let mut moved = Member { team_id: None, ..ada };
    moved.name = "Grace".into();
    run!(shop.execute(diesel::update(&moved).set(&moved)))?;
    let found = || users::table.find(moved.id);
    assert_eq!(run!(shop.first::<Member>(found().select(Member::as_select())))?, moved);
    let domain = run!(shop.first::<DomainRow>(found().select((users::id, users::name))))?;
    assert_eq!(Internal::<User>::from(domain.id), moved.id.into());
    Ok(Passed)
}

async fn rows_of_a_multi_connection(database: &Database) -> Verdict {
    let (_, team, users) = open(database).await?;
    crate::multi::rows(&database.url, team, &users)?;
    Ok(Passed)
}

async fn plain_columns(database: &Database) -> Verdict {
    use plain::users::dsl;

    let (shop, team, users) = open(database).await?;
    let row: (Internal<User>, Option<Internal<Team>>, String) =
        run!(shop.first(dsl::users.find(users[0].id)))?;
    assert_eq!(row, (users[0].id, Some(team), "Ada".to_owned()));
    let is_one = dsl::id.eq_any([users[0].id, users[1].id]).and(dsl::team_id.eq(Some(team)));
    let ids: Vec<Internal<User>> = run!(shop.load(dsl::users.filter(is_one).select(dsl::id)))?;
    assert_eq!(ids, [users[0].id]);
    let update = diesel::update(dsl::users.find(users[1].id)).set(dsl::team_id.eq(team));
    run!(shop.execute(update))?;
    let without: i64 = run!(shop.get_result(dsl::users.filter(dsl::team_id.is_null()).count()))?;
    assert_eq!(without, 0);
    Ok(Passed)
}

async fn plain_integer_columns(database: &Database) -> Verdict {
    use crate::rows::plain_integer::numbers::dsl;

    let shop = DieselShop::connect(database).await?;
    database.execute(create_sql(database.kind))?;
    database.execute("INSERT INTO numbers (id, next_id, team_id) VALUES (7, 7, 7)")?;
    let seven: Internal<Number> = from_key(7)?;
    let found: (Internal<Number>, Option<Internal<Number>>) =
        run!(shop.first(dsl::numbers.find(seven)))?;
    assert_eq!(found, (seven, Some(seven)));
    let update = diesel::update(dsl::numbers.filter(dsl::next_id.eq(seven)));
    run!(shop.execute(update.set(dsl::next_id.eq(None::<Internal<Number>>))))?;
    let found: Option<Internal<Number>> = run!(shop.first(dsl::numbers.select(dsl::next_id)))?;
    assert_eq!(found, None);
    Ok(Passed)
}

async fn greatest_key(database: &Database) -> Verdict {
    let (shop, team, _) = open(database).await?;
    let greatest: Option<Internal<Team>> = run!(shop.first(teams::table.select(max(teams::id))))?;
    assert_eq!(greatest, Some(team));
    Ok(Passed)
}

async fn many_comparisons(database: &Database) -> Verdict {
    let (shop, _, users) = open(database).await?;
    let ids = [&users[0].id, &users[2].id];
    let found = users::table
        .filter(users::id.ne_all(ids).or(users::id.le(&users[0].id)))
        .filter(users::id.between(users[0].id, users[1].id))
        .order(users::id.desc())
        .select(users::id);
    let found: Vec<Internal<User>> = run!(shop.load(found))?;
    assert_eq!(found, [users[1].id, users[0].id]);
    // diesel has one bound for `eq` and for these, so a client's made-up id pages as well.
    let made_up: Internal<User> = cases::opened_made_up_id::<User>();
    let after = users::table
        .filter(users::id.gt(made_up).and(users::id.ge(made_up)))
        .filter(not(users::id.lt(made_up).or(users::id.le(made_up))))
        .filter(users::id.not_between(made_up, made_up))
        .count();
    let after: i64 = run!(shop.get_result(after))?;
    assert_eq!(after, i64::try_from(users.iter().filter(|user| user.id > made_up).count())?);
    cases::says_what_no_type_closes(
        "diesel: `.gt(id)`, `.ge(id)`, `.lt(id)`, `.le(id)`, `.between(…)`, `.not_between(…)`",
    );
    Ok(Passed)
}

async fn no_sequence_numbers_in_a_transaction(database: &Database) -> Verdict {
    let shop = DieselShop::connect(database).await?;
    let dialect = dialect(database.kind);
    database.execute(&DieselShop::create_sequences_sql(dialect))?;
    let sequence = DieselShop::sequence(100);
    shop.next(&sequence).await?;
    // A block may have numbers left or not.
    for sequence in [sequence, DieselShop::sequence(100)] {
        {
            let connection = &mut *shop.connection().await?;
            done(begin(connection)).await?;
            let refused = done(sequence.next(connection)).await;
            done(rollback(connection)).await?;
            let message = cases::message(&refused.expect_err("taken in a transaction"));
            assert!(message.contains("before it begins"), "{message}");
        }
        shop.next(&sequence).await?;
    }
    Ok(Passed)
}

/// diesel's `transaction` does this for each error.
async fn errors_are_recognized_after_a_rollback(database: &Database) -> Verdict {
    const UPDATE: &str = "UPDATE probe SET n = n + 1";
    database.execute("CREATE TABLE probe (n BIGINT PRIMARY KEY); INSERT INTO probe VALUES (0)")?;
    let (shop, other) =
        (DieselShop::connect(database).await?, DieselShop::connect(database).await?);
    let prepare = match database.kind {
        Engine::Postgres => "SET lock_timeout = '200ms'",
        Engine::Mysql | Engine::Mariadb => "SET SESSION innodb_lock_wait_timeout = 1",
        Engine::Sqlite => "PRAGMA busy_timeout = 0",
    };
    let connection = &mut *other.connection().await?;
    let begin = match database.kind {
        Engine::Mysql | Engine::Mariadb => "SET autocommit = 0",
        Engine::Postgres | Engine::Sqlite => "BEGIN",
    };
    done(diesel::sql_query(begin).execute(connection)).await?;
    done(diesel::sql_query(UPDATE).execute(connection)).await?;
    let connection = &mut *shop.connection().await?;
    done(diesel::sql_query(prepare).execute(connection)).await?;
    done(self::begin(connection)).await?;
    let updated = done(diesel::sql_query(UPDATE).execute(connection)).await;
    done(rollback(connection)).await?;
    let said = done(retry(connection, &updated.expect_err("updated"))).await;
    assert_eq!(said, Some(Retry::Again));
    Ok(Passed)
}
