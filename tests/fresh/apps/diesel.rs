use diesel::prelude::*;
use opaque_id_diesel::generator::Generate;
use opaque_id_diesel::key::{Uuid, Uuid7};
use opaque_id_diesel::{External, Internal, Keyring, OpaqueId};

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::{Team, User};

    users (id) {
        id -> Id<User>,
        team_id -> Nullable<Id<Team>>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::Team;

    teams (id) {
        id -> Id<Team>,
        name -> Text,
    }
}

#[derive(OpaqueId, Queryable, Selectable, Insertable)]
#[opaque_id(prefix = "user", key = Uuid)]
pub struct User {
    id: Internal<User>,
    team_id: Option<Internal<Team>>,
    name: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i32)]
pub struct Team;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let keyring = Keyring::from_env()?;
    let mut connection = PgConnection::establish(args[0])?;
    match args[1..] {
        ["list"] => {
            let users = users::table.order(users::name).select(User::as_select());
            for user in users.load(&mut connection)? {
                let team = user.team_id.map(|id| keyring.seal(id).to_string());
                println!("{} {} {}", keyring.seal(user.id), team.unwrap_or_default(), user.name);
            }
        }
        ["move", user, team] => {
            let (user, team): (External<User>, External<Team>) = (user.parse()?, team.parse()?);
            diesel::update(users::table.find(keyring.open(user)?))
                .set(users::team_id.eq(keyring.open(team)?))
                .execute(&mut connection)?;
        }
        ["add", team, name] => {
            let team: External<Team> = team.parse()?;
            let user = User {
                id: Internal::from_key(Uuid::from(Uuid7::generate()))?,
                team_id: Some(keyring.open(team)?),
                name: name.to_owned(),
            };
            diesel::insert_into(users::table).values(&user).execute(&mut connection)?;
            println!("{}", keyring.seal(user.id));
        }
        ["add-team", name] => {
            diesel::insert_into(teams::table).values(teams::name.eq(name)).execute(&mut connection)?;
            let id: Internal<Team> = teams::table
                .filter(teams::name.eq(name))
                .select(teams::id)
                .first(&mut connection)?;
            println!("{}", keyring.seal(id));
        }
        _ => return Err("list, move, add or add-team".into()),
    }
    Ok(())
}
