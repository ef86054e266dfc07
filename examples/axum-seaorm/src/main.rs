//! axum and SeaORM: handlers get opened ids, and the rows of a join become nested views.

#![expect(unreachable_pub, reason = "entities of SeaORM 1.1 are public")]

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::{ErrorResponse, Result};
use axum::routing::{get, post};
use axum::{Json as Answer, Router};
use opaque_id_axum::{Json, NotFound, Opened, PageQuery, Path, Refusal};
use opaque_id_seaorm::{Cursor, External, Internal, Keyring, View};
use sea_orm::ActiveValue::{NotSet, Set};
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait as _, Database, DatabaseConnection,
    DbErr, EntityTrait as _, FromQueryResult, JoinType, Order, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, RelationTrait as _, Select, SqlErr,
};
use serde::{Deserialize, Serialize};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS comments (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        author_id INTEGER NOT NULL REFERENCES users (id),
        body TEXT NOT NULL
    )";

// SeaORM 1.1 accepts these entities too, but requires them to be public.

mod user {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub name: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

mod comment {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::user;

    #[derive(Clone, Debug, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "comments")]
    #[opaque_id(prefix = "comment", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub author_id: Internal<user::Model>,
        pub body: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {
        #[sea_orm(belongs_to = "user::Entity", from = "Column::AuthorId", to = "user::Column::Id")]
        User,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// The view of a user, alone and as a part of a comment.
#[derive(Serialize, View)]
#[view(from = user::Model, part)]
struct UserView {
    id: External<user::Model>,
    name: String,
}

/// A row of the join.
#[derive(FromQueryResult)]
struct CommentRow {
    id: Internal<comment::Model>,
    body: String,
    author_id: Internal<user::Model>,
    author_name: String,
}

/// The view of a comment. The columns move, and are not copied.
#[derive(Serialize, View)]
#[view(from = CommentRow)]
struct CommentView {
    id: External<comment::Model>,
    body: String,
    #[view(prefix = "author_")]
    author: UserView,
}

#[derive(Clone)]
struct Site {
    database: DatabaseConnection,
    keyring: Keyring,
}

impl FromRef<Site> for Keyring {
    fn from_ref(site: &Site) -> Self {
        site.keyring.clone()
    }
}

/// A database's error can contain a row's values, so it goes to the log only.
fn internal(error: DbErr) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

async fn add_user(State(site): State<Site>, Json(new): Json<NewUser>) -> Result<Answer<UserView>> {
    let user = user::ActiveModel { id: NotSet, name: Set(new.name) };
    let user = user.insert(&site.database).await.map_err(internal)?;
    Ok(Answer(site.keyring.view(user)))
}

#[derive(Deserialize)]
struct NewComment {
    author: Opened<user::Model>,
    body: String,
}

async fn add_comment(
    State(site): State<Site>,
    Json(NewComment { author: Opened(author), body }): Json<NewComment>,
) -> Result<Answer<CommentView>> {
    let comment = comment::ActiveModel { id: NotSet, author_id: Set(author), body: Set(body) };
    let inserted = comment.insert(&site.database).await.map_err(|error| match error.sql_err() {
        // The API has shown this id, and its user has been deleted.
        Some(SqlErr::ForeignKeyConstraintViolation(_)) => {
            ErrorResponse::from(Refusal::no_row_in_body::<user::Model>("/author"))
        }
        _ => internal(error).into(),
    })?;
    show_comment(State(site), Path(Opened(inserted.id))).await
}

async fn show_comment(
    State(site): State<Site>,
    Path(Opened(id)): Path<Opened<comment::Model>>,
) -> Result<Answer<CommentView>> {
    let row = rows().filter(comment::Column::Id.eq(id)).into_model::<CommentRow>();
    let row = row.one(&site.database).await.map_err(internal)?.ok_or(NotFound)?;
    Ok(Answer(site.keyring.view(row)))
}

fn rows() -> Select<comment::Entity> {
    comment::Entity::find()
        .join(JoinType::InnerJoin, comment::Relation::User.def())
        .column_as(user::Column::Name, "author_name")
}

#[derive(Serialize)]
struct Comments {
    comments: Vec<CommentView>,
    next: Option<Cursor<comment::Model>>,
}

/// `GET /comments?limit=20&starting_after=comment_cursor_…`, newest first.
async fn list_comments(
    State(site): State<Site>,
    query: PageQuery<comment::Model>,
) -> Result<Answer<Comments>> {
    let request = query.descending();
    let range = request.range();
    let order = if request.is_descending() { Order::Desc } else { Order::Asc };
    let rows: Vec<CommentRow> = rows()
        .filter(comment::Column::Id.between(range.first(), range.last()))
        .order_by(comment::Column::Id, order)
        .limit(u64::from(request.fetch())) // one more than the page has
        .into_model()
        .all(&site.database)
        .await
        .map_err(internal)?;
    let page = request.finish(rows, |row| site.keyring.seal_cursor(row.id));
    Ok(Answer(Comments { comments: site.keyring.view(page.rows), next: page.next }))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let database = Database::connect("sqlite:axum-seaorm.db?mode=rwc").await?;
    database.execute_unprepared(TABLES).await?;
    let router = Router::new()
        .route("/users", post(add_user))
        .route("/comments", get(list_comments).post(add_comment))
        .route("/comments/{id}", get(show_comment))
        .with_state(Site { database, keyring: Keyring::from_env()? });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, router).await?)
}
