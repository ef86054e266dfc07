//! GraphQL: ids are scalars, `node` takes an id of any resource, lists are Relay's connections.

mod size;

use async_graphql::connection::Connection;
use async_graphql::parser::parse_query;
use async_graphql::{
    ComplexObject, Context, EmptySubscription, Error, ErrorExtensions, ID, Interface, Object,
    Request, Response, Result, Schema, SchemaBuilder, ServerError, SimpleObject,
};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use opaque_id_sqlx::graphql::{connection, page_request};
use opaque_id_sqlx::{AnyId, Cursor, External, Internal, Keyring, OpaqueId, View};
use sqlx::{AssertSqlSafe, SqlitePool};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user INTEGER NOT NULL REFERENCES users (id),
        item TEXT NOT NULL
    )";

/// A user. Relay's `Node` requires an `ID`, so `id` is a method.
#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "user", key = i64)]
#[view(into = UserView, derive(SimpleObject), attr(graphql(complex, name = "User")))]
struct User {
    #[view(attr(graphql(skip)))]
    id: Internal<User>,
    name: String,
}

#[derive(OpaqueId, sqlx::FromRow, View)]
#[opaque_id(prefix = "order", key = i64)]
#[view(into = OrderView, derive(SimpleObject), attr(graphql(complex, name = "Order")))]
struct Order {
    #[view(attr(graphql(skip)))]
    id: Internal<Order>,
    /// The scalar `UserId`. Generators of clients create a type for it.
    user: Internal<User>,
    item: String,
}

#[ComplexObject]
impl UserView {
    async fn id(&self) -> ID {
        self.id.into()
    }
}

#[ComplexObject]
impl OrderView {
    async fn id(&self) -> ID {
        self.id.into()
    }
}

#[derive(Interface)]
#[graphql(field(name = "id", ty = "ID"))]
enum Node {
    User(UserView),
    Order(OrderView),
}

/// The ids that `node` opens, by their prefixes.
#[derive(AnyId)]
enum NodeId {
    User(Internal<User>),
    Order(Internal<Order>),
}

struct Query;

#[Object]
impl Query {
    /// Returns a row of any resource. A made-up id has the answer of a missing row.
    async fn node(&self, context: &Context<'_>, id: ID) -> Result<Option<Node>> {
        let app = App::of(context)?;
        let Ok(id) = app.keyring.open_any(&id) else { return Ok(None) };
        Ok(match id {
            NodeId::User(id) => app.user(id).await?.map(Node::User),
            NodeId::Order(id) => app.order(id).await?.map(Node::Order),
        })
    }

    async fn user(&self, context: &Context<'_>, id: External<User>) -> Result<Option<UserView>> {
        let app = App::of(context)?;
        let Ok(id) = app.keyring.open(id) else { return Ok(None) };
        app.user(id).await
    }

    async fn orders(
        &self,
        context: &Context<'_>,
        after: Option<String>,
        before: Option<String>,
        first: Option<i32>,
        last: Option<i32>,
    ) -> Result<Connection<Cursor<Order>, OrderView>> {
        let app = App::of(context)?;
        let request = page_request::<Order>(&app.keyring, after, before, first, last, 50)?;
        let order = if request.is_descending() { "DESC" } else { "ASC" };
        let select = format!(
            "SELECT id, user, item FROM orders WHERE id BETWEEN ? AND ? ORDER BY id {order} LIMIT ?"
        );
        let rows: Vec<Order> = sqlx::query_as(AssertSqlSafe(select))
            .bind(request.range().first())
            .bind(request.range().last())
            .bind(i64::from(request.fetch())) // one more than the page has
            .fetch_all(&app.pool)
            .await
            .map_err(internal)?;
        Ok(connection(&app.keyring, &request, rows, |order| order.id))
    }
}

struct Mutation;

#[Object]
impl Mutation {
    async fn add_user(&self, context: &Context<'_>, name: String) -> Result<UserView> {
        let app = App::of(context)?;
        let insert = sqlx::query_as("INSERT INTO users (name) VALUES (?) RETURNING id, name");
        let user: User = insert.bind(name).fetch_one(&app.pool).await.map_err(internal)?;
        Ok(app.keyring.view(user))
    }

    async fn add_order(
        &self,
        context: &Context<'_>,
        user: External<User>,
        item: String,
    ) -> Result<OrderView> {
        let app = App::of(context)?;
        let user = app.keyring.open(user).map_err(|_| no_such("user"))?;
        let insert = "INSERT INTO orders (user, item) VALUES (?, ?) RETURNING id, user, item";
        let inserted = sqlx::query_as(insert).bind(user).bind(item).fetch_one(&app.pool).await;
        let order: Order = inserted.map_err(|error| match error.as_database_error() {
            // The API has shown this id, and its user has been deleted.
            Some(error) if error.is_foreign_key_violation() => no_such("user"),
            _ => internal(error),
        })?;
        Ok(app.keyring.view(order))
    }
}

fn no_such(argument: &str) -> Error {
    let error = Error::new(format!("no such `{argument}`"));
    error.extend_with(|_, extensions| extensions.set("code", "NOT_FOUND"))
}

/// A database's error can contain a row's values, so it goes to the log only.
fn internal(error: sqlx::Error) -> Error {
    eprintln!("{error}");
    Error::new("internal error")
}

struct App {
    pool: SqlitePool,
    keyring: Keyring,
}

impl App {
    fn of<'c>(context: &Context<'c>) -> Result<&'c Self> {
        context.data()
    }

    async fn user(&self, id: Internal<User>) -> Result<Option<UserView>> {
        let select = sqlx::query_as("SELECT id, name FROM users WHERE id = ?");
        let row: Option<User> =
            select.bind(id).fetch_optional(&self.pool).await.map_err(internal)?;
        Ok(self.keyring.view(row))
    }

    async fn order(&self, id: Internal<Order>) -> Result<Option<OrderView>> {
        let select = sqlx::query_as("SELECT id, user, item FROM orders WHERE id = ?");
        let row: Option<Order> =
            select.bind(id).fetch_optional(&self.pool).await.map_err(internal)?;
        Ok(self.keyring.view(row))
    }
}

type ApiSchema = Schema<Query, Mutation, EmptySubscription>;

fn schema() -> SchemaBuilder<Query, Mutation, EmptySubscription> {
    // Without a limit, one document could guess thousands of ids under as many aliases.
    Schema::build(Query, Mutation, EmptySubscription).limit_complexity(300)
}

async fn graphql(State(schema): State<ApiSchema>, Json(request): Json<Request>) -> Json<Response> {
    Json(execute(&schema, request).await)
}

async fn execute(schema: &ApiSchema, mut request: Request) -> Response {
    let document = match parse_query(&request.query) {
        Ok(document) => document,
        Err(error) => return Response::from_errors(vec![error.into()]),
    };
    // The limits of async-graphql write out fragments. The time for this doubles with each nested fragment.
    if size::exceeds(&document, 1_000) {
        let message = "expected at most 1,000 selections, with the fragments written out";
        return Response::from_errors(vec![ServerError::new(message, None)]);
    }
    request.set_parsed_query(document);
    schema.execute(request).await
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite:graphql.db?mode=rwc").await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let app = App { pool, keyring: Keyring::from_env()? };
    let schema = schema().data(app).finish();
    let router = Router::new().route("/graphql", post(graphql)).with_state(schema);
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, router).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize, times: usize) -> String {
        let fragment = |i| {
            format!(" fragment f{i} on Query {{ {} }}", format!("...f{} ", i + 1).repeat(times))
        };
        let fragments: String = (0..levels).map(fragment).collect();
        format!("{{ ...f0 }}{fragments} fragment f{levels} on Query {{ __typename }}")
    }

    #[tokio::test]
    async fn nested_fragments_are_refused_before_they_are_written_out() {
        let schema = schema().finish();
        let cycle = "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }";
        let unused = nested(30, 2).replacen("...f0", "__typename", 1);
        let long = [nested(20, 2), nested(60, 2), nested(7, 30), nested(5_000, 1)];
        for document in long.into_iter().chain([unused, cycle.to_owned()]) {
            let response = execute(&schema, Request::new(document)).await;
            let message = response.errors.first().map(|error| error.message.clone());
            assert!(message.is_some_and(|it| it.contains("at most 1,000 selections")));
        }
        let response = execute(&schema, Request::new(nested(3, 2))).await;
        assert_eq!(response.errors, []);
    }
}
