//! actix-web and diesel: handlers get opened ids, and the rows of a join become nested views.

#![allow(
    missing_debug_implementations,
    missing_docs,
    reason = "the tables of `diesel::table!` are public, and so are their types"
)]

use std::error::Error as StdError;
use std::fmt::Display;

use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::web::{self, Data};
use actix_web::{App, Error, HttpServer, get, post};
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::r2d2::{ConnectionManager, CustomizeConnection, Pool};
use diesel::result::DatabaseErrorKind::ForeignKeyViolation;
use diesel::result::Error::DatabaseError;
use opaque_id_actix::{Json, NotFound, Opened, PageQuery, Path, Refusal};
use opaque_id_diesel::{Cursor, External, Internal, Keyring, OpaqueId, View};
use serde::{Deserialize, Serialize};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS comments (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        author_id INTEGER NOT NULL REFERENCES users (id),
        body TEXT NOT NULL
    )";

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::User;

    users (id) {
        id -> Id<User>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::{Comment, User};

    comments (id) {
        id -> Id<Comment>,
        author_id -> Id<User>,
        body -> Text,
    }
}

diesel::joinable!(comments -> users (author_id));
diesel::allow_tables_to_appear_in_same_query!(comments, users);

#[derive(OpaqueId, Queryable, Selectable)]
#[opaque_id(prefix = "user", key = i64)]
pub struct User {
    id: Internal<User>,
    name: String,
}

/// The view of a user, alone and as a part of a comment.
#[derive(Serialize, View)]
#[view(from = User, part)]
struct UserView {
    id: External<User>,
    name: String,
}

/// A row of the join.
#[derive(OpaqueId, Queryable, Selectable)]
#[opaque_id(prefix = "comment", key = i64)]
#[diesel(table_name = comments)]
pub struct Comment {
    id: Internal<Comment>,
    body: String,
    author_id: Internal<User>,
    #[diesel(select_expression = users::name)]
    author_name: String,
}

/// The view of a comment. The columns move, and are not copied.
#[derive(Serialize, View)]
#[view(from = Comment)]
struct CommentView {
    id: External<Comment>,
    body: String,
    #[view(prefix = "author_")]
    author: UserView,
}

#[derive(Clone)]
struct Site {
    pool: Pool<ConnectionManager<SqliteConnection>>,
    keyring: Keyring,
}

impl Site {
    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut SqliteConnection) -> QueryResult<T> + Send + 'static,
    ) -> Result<T, Error> {
        let pool = self.pool.clone();
        let run = move || Ok::<_, Box<dyn StdError + Send + Sync>>(query(&mut *pool.get()?)?);
        Ok(web::block(run).await.map_err(internal)?.map_err(internal)?)
    }
}

/// SQLite waits for other writers and checks references.
#[derive(Debug)]
struct Pragmas;

impl CustomizeConnection<SqliteConnection, diesel::r2d2::Error> for Pragmas {
    fn on_acquire(&self, connection: &mut SqliteConnection) -> Result<(), diesel::r2d2::Error> {
        let pragmas = "PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON";
        connection.batch_execute(pragmas).map_err(diesel::r2d2::Error::QueryError)
    }
}

/// A database's error can contain a row's values, so it goes to the log only.
fn internal(error: impl Display) -> InternalError<&'static str> {
    eprintln!("{error}");
    InternalError::new("try again later", StatusCode::INTERNAL_SERVER_ERROR)
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

#[post("/users")]
async fn add_user(site: Data<Site>, Json(new): Json<NewUser>) -> Result<Json<UserView>, Error> {
    let insert = diesel::insert_into(users::table).values(users::name.eq(new.name));
    let insert = insert.returning(User::as_returning());
    Ok(Json(site.keyring.view(site.query(|connection| insert.get_result(connection)).await?)))
}

#[derive(Deserialize)]
struct NewComment {
    author: Opened<User>,
    body: String,
}

#[post("/comments")]
async fn add_comment(
    site: Data<Site>,
    Json(NewComment { author: Opened(author), body }): Json<NewComment>,
) -> Result<Json<CommentView>, Error> {
    let insert = diesel::insert_into(comments::table)
        .values((comments::author_id.eq(author), comments::body.eq(body)))
        .returning(comments::id);
    let insert = |connection: &mut _| match insert.get_result(connection) {
        Ok(id) => find(id, connection),
        // The API has shown this id, and its user has been deleted.
        Err(DatabaseError(ForeignKeyViolation, _)) => Ok(None),
        Err(error) => Err(error),
    };
    let no_row = || Refusal::no_row_in_body::<User>("/author");
    Ok(Json(site.keyring.view(site.query(insert).await?.ok_or_else(no_row)?)))
}

#[get("/comments/{id}")]
async fn show_comment(
    site: Data<Site>,
    Path(Opened(id)): Path<Opened<Comment>>,
) -> Result<Json<CommentView>, Error> {
    let comment = site.query(move |connection| find(id, connection)).await?;
    Ok(Json(site.keyring.view(comment.ok_or(NotFound)?)))
}

fn find(id: Internal<Comment>, connection: &mut SqliteConnection) -> QueryResult<Option<Comment>> {
    let comments = comments::table.inner_join(users::table).select(Comment::as_select());
    comments.filter(comments::id.eq(id)).first(connection).optional()
}

#[derive(Serialize)]
struct Comments {
    comments: Vec<CommentView>,
    next: Option<Cursor<Comment>>,
}

/// `GET /comments?limit=20&starting_after=comment_cursor_…`, newest first.
#[get("/comments")]
async fn list_comments(
    site: Data<Site>,
    query: PageQuery<Comment>,
) -> Result<Json<Comments>, Error> {
    let request = query.descending();
    let rows = move |connection: &mut _| {
        let range = request.range();
        let rows = comments::table.inner_join(users::table).select(Comment::as_select());
        let rows = rows.filter(comments::id.between(range.first(), range.last()));
        let rows = rows.limit(request.fetch().into()).into_boxed(); // one more than the page has
        match request.is_descending() {
            true => rows.order(comments::id.desc()).load(connection),
            false => rows.order(comments::id).load(connection),
        }
    };
    let page = request.finish(site.query(rows).await?, |row| site.keyring.seal_cursor(row.id));
    Ok(Json(Comments { comments: site.keyring.view(page.rows), next: page.next }))
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = ConnectionManager::<SqliteConnection>::new("actix-diesel.db");
    let pool = Pool::builder().connection_customizer(Box::new(Pragmas)).build(manager)?;
    pool.get()?.batch_execute(TABLES)?;
    let site = Site { pool, keyring: Keyring::from_env()? };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(site.keyring.clone()) // for the extractors
            .app_data(Data::new(site.clone()))
            .service(add_user)
            .service(add_comment)
            .service(show_comment)
            .service(list_comments)
    });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(server.bind(address)?.run().await?)
}
