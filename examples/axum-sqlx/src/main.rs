//! axum and sqlx: the rows of a join become nested views, page by page.

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::Result;
use axum::routing::get;
use axum::{Router, routing::post};
use opaque_id_axum::{Json, NotFound, Opened, PageQuery, Path, Refusal};
use opaque_id_sqlx::{Cursor, External, Internal, Keyring, OpaqueId, View};
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, SqlitePool};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS secrets (id INTEGER PRIMARY KEY, check_values TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS articles (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        author INTEGER NOT NULL REFERENCES users (id),
        editor INTEGER REFERENCES users (id)
    )";

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user", key = i64)]
struct User {
    id: Internal<User>,
    name: String,
}

/// The view of a user, alone and as a part of an article.
#[derive(Serialize, View)]
#[view(from = User, part)]
struct UserView {
    id: External<User>,
    name: String,
}

/// A row of the join, as flat as the database returns it.
#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "article", key = i64)]
struct Article {
    id: Internal<Article>,
    title: String,
    author_id: Internal<User>,
    author_name: String,
    editor_id: Option<Internal<User>>,
    editor_name: Option<String>,
}

/// The view of an article. The columns move, and are not copied.
#[derive(Serialize, View)]
#[view(from = Article)]
struct ArticleView {
    id: External<Article>,
    title: String,
    #[view(prefix = "author_")]
    author: UserView,
    #[view(prefix = "editor_")]
    editor: Option<UserView>,
}

#[derive(Clone, FromRef)]
struct App {
    pool: SqlitePool,
    keyring: Keyring,
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

async fn add_user(State(app): State<App>, Json(new): Json<NewUser>) -> Result<Json<UserView>> {
    let insert = sqlx::query_as("INSERT INTO users (name) VALUES (?) RETURNING id, name");
    let user: User = insert.bind(new.name).fetch_one(&app.pool).await.map_err(internal)?;
    Ok(Json(app.keyring.view(user)))
}

#[derive(Deserialize)]
struct NewArticle {
    title: String,
    author: Opened<User>,
    editor: Option<Opened<User>>,
}

async fn add_article(
    State(app): State<App>,
    Json(new): Json<NewArticle>,
) -> Result<Json<ArticleView>> {
    let (Opened(author), editor) = (new.author, new.editor.map(|Opened(editor)| editor));
    let insert = sqlx::query_scalar(
        "INSERT INTO articles (title, author, editor) VALUES (?, ?, ?) RETURNING id",
    );
    let inserted = insert.bind(new.title).bind(author).bind(editor).fetch_one(&app.pool).await;
    let id: Internal<Article> = match inserted {
        Ok(id) => id,
        // The API has shown this id, and its user has been deleted.
        Err(error) if error.as_database_error().is_some_and(|it| it.is_foreign_key_violation()) => {
            let exists = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?)");
            let is_author: bool =
                exists.bind(author).fetch_one(&app.pool).await.map_err(internal)?;
            let pointer = if is_author { "/editor" } else { "/author" };
            return Err(Refusal::no_row_in_body::<User>(pointer).into());
        }
        Err(error) => return Err(internal(error).into()),
    };
    Ok(Json(app.keyring.view(article(&app, id).await?)))
}

async fn show_article(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<Article>>,
) -> Result<Json<ArticleView>> {
    Ok(Json(app.keyring.view(article(&app, id).await?)))
}

async fn article(app: &App, id: Internal<Article>) -> Result<Article> {
    let article = sqlx::query_as(
        "SELECT articles.id, title, a.id AS author_id, a.name AS author_name, e.id AS editor_id, e.name AS editor_name
         FROM articles JOIN users a ON a.id = author LEFT JOIN users e ON e.id = editor WHERE articles.id = ?",
    );
    Ok(article.bind(id).fetch_optional(&app.pool).await.map_err(internal)?.ok_or(NotFound)?)
}

#[derive(Serialize)]
struct Articles {
    articles: Vec<ArticleView>,
    next: Option<Cursor<Article>>,
}

/// `GET /articles?limit=20&starting_after=article_cursor_…`, oldest first.
async fn list_articles(
    State(app): State<App>,
    query: PageQuery<Article>,
) -> Result<Json<Articles>> {
    let request = query.ascending();
    let order = if request.is_descending() { "DESC" } else { "ASC" };
    let mut select = QueryBuilder::new(
        "SELECT articles.id, title, a.id AS author_id, a.name AS author_name, e.id AS editor_id, e.name AS editor_name
         FROM articles JOIN users a ON a.id = author LEFT JOIN users e ON e.id = editor WHERE articles.id BETWEEN ",
    );
    select.push_bind(request.range().first()).push(" AND ").push_bind(request.range().last());
    select.push(format_args!(" ORDER BY articles.id {order} LIMIT "));
    select.push_bind(i64::from(request.fetch())); // one more than the page has
    let rows: Vec<Article> =
        select.build_query_as().fetch_all(&app.pool).await.map_err(internal)?;
    let page = request.finish(rows, |article| app.keyring.seal_cursor(article.id));
    Ok(Json(Articles { articles: app.keyring.view(page.rows), next: page.next }))
}

fn internal(error: sqlx::Error) -> StatusCode {
    eprintln!("{error}");
    StatusCode::INTERNAL_SERVER_ERROR
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite:axum-sqlx.db?mode=rwc").await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let keyring = Keyring::from_file("keys")?;
    keyring.prepare::<User>()?;
    keyring.prepare::<Article>()?;
    // With another file of secrets, the ids of all rows would change.
    let remembered: Option<String> =
        sqlx::query_scalar("SELECT check_values FROM secrets").fetch_optional(&pool).await?;
    let check_values = keyring.recognize(remembered.as_deref())?;
    eprintln!("the check values of the secrets are {check_values}");
    let remember = sqlx::query("REPLACE INTO secrets VALUES (1, ?)").bind(check_values);
    remember.execute(&pool).await?;
    let router = Router::new()
        .route("/users", post(add_user))
        .route("/articles", get(list_articles).post(add_article))
        .route("/articles/{id}", get(show_article))
        .with_state(App { pool, keyring });
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, router).await?)
}
