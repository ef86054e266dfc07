use opaque_id_seaorm::generator::Generate;
use opaque_id_seaorm::key::{Uuid, Uuid7};
use opaque_id_seaorm::{External, Internal, Keyring};
use sea_orm::{ActiveModelTrait, Database, EntityTrait, QueryOrder, Set};

mod user {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user", key = Uuid)]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<Model>,
        pub team_id: Option<Internal<super::team::Model>>,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

mod team {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "teams")]
    #[opaque_id(prefix = "team", key = i32)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let keyring = Keyring::from_env()?;
    let database = Database::connect(args[0]).await?;
    match args[1..] {
        ["list"] => {
            for user in user::Entity::find().order_by_asc(user::Column::Name).all(&database).await? {
                let team = user.team_id.map(|id| keyring.seal(id).to_string());
                println!("{} {} {}", keyring.seal(user.id), team.unwrap_or_default(), user.name);
            }
        }
        ["move", user, team] => {
            let user: External<user::Model> = user.parse()?;
            let team: External<team::Model> = team.parse()?;
            let user = user::ActiveModel {
                id: Set(keyring.open(user)?),
                team_id: Set(Some(keyring.open(team)?)),
                ..Default::default()
            };
            user.update(&database).await?;
        }
        ["add", team, name] => {
            let team: External<team::Model> = team.parse()?;
            let user = user::ActiveModel {
                id: Set(Internal::from_key(Uuid::from(Uuid7::generate()))?),
                team_id: Set(Some(keyring.open(team)?)),
                name: Set(name.to_owned()),
            };
            println!("{}", keyring.seal(user.insert(&database).await?.id));
        }
        ["add-team", name] => {
            let team = team::ActiveModel { name: Set(name.to_owned()), ..Default::default() };
            println!("{}", keyring.seal(team.insert(&database).await?.id));
        }
        _ => return Err("list, move, add or add-team".into()),
    }
    Ok(())
}
