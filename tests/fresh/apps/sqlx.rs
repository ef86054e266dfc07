use opaque_id_sqlx::key::{Uuid, Uuid7};
use opaque_id_sqlx::generator::Generate;
use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};
use sqlx::PgPool;

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user", key = Uuid)]
struct User {
    id: Internal<User>,
    team_id: Option<Internal<Team>>,
    name: String,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i32)]
struct Team;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let keyring = Keyring::from_env()?;
    let pool = PgPool::connect(args[0]).await?;
    match args[1..] {
        ["list"] => {
            let users: Vec<User> = sqlx::query_as("SELECT id, team_id, name FROM users ORDER BY name")
                .fetch_all(&pool)
                .await?;
            for user in users {
                let team = user.team_id.map(|id| keyring.seal(id).to_string());
                println!("{} {} {}", keyring.seal(user.id), team.unwrap_or_default(), user.name);
            }
        }
        ["move", user, team] => {
            let (user, team): (External<User>, External<Team>) = (user.parse()?, team.parse()?);
            sqlx::query("UPDATE users SET team_id = $1 WHERE id = $2")
                .bind(keyring.open(team)?)
                .bind(keyring.open(user)?)
                .execute(&pool)
                .await?;
        }
        ["add", team, name] => {
            let team: External<Team> = team.parse()?;
            let id = Internal::<User>::from_key(Uuid::from(Uuid7::generate()))?;
            sqlx::query("INSERT INTO users (id, team_id, name) VALUES ($1, $2, $3)")
                .bind(id)
                .bind(keyring.open(team)?)
                .bind(name)
                .execute(&pool)
                .await?;
            println!("{}", keyring.seal(id));
        }
        ["add-team", name] => {
            sqlx::query("INSERT INTO teams (name) VALUES ($1)").bind(name).execute(&pool).await?;
            let id: Internal<Team> = sqlx::query_scalar("SELECT id FROM teams WHERE name = $1")
                .bind(name)
                .fetch_one(&pool)
                .await?;
            println!("{}", keyring.seal(id));
        }
        _ => return Err("list, move, add or add-team".into()),
    }
    Ok(())
}
