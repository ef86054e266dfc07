//! gRPC: ids are strings in messages. The service opens them at the start of a call and seals them at its
//! end.

use std::error::Error;
use std::net::ToSocketAddrs as _;

use opaque_id_sqlx::page::{PageRequest, Start};
use opaque_id_sqlx::resource::SealedResource;
use opaque_id_sqlx::{Cursor, External, Internal, Keyring, OpaqueId};
use sqlx::{AssertSqlSafe, SqlitePool};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use self::api::shop_client::ShopClient;
use self::api::shop_server::{Shop, ShopServer};

#[allow(unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
mod api {
    tonic::include_proto!("shop");
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id INTEGER NOT NULL REFERENCES users (id),
        item TEXT NOT NULL
    )";

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user", key = i64)]
struct User {
    id: Internal<User>,
    name: String,
}

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "order", key = i64)]
struct Order {
    id: Internal<Order>,
    user_id: Internal<User>,
    item: String,
}

struct Service {
    pool: SqlitePool,
    keyring: Keyring,
}

impl Service {
    /// Opens the id of a field. A refused id has the status of a missing row.
    fn open<T: SealedResource>(&self, text: &str) -> Result<T::Internal, Status> {
        let id: External<T> = text.parse().map_err(refused::<T>)?;
        self.keyring.open(id).map_err(refused::<T>)
    }

    fn user(&self, User { id, name }: User) -> Response<api::User> {
        Response::new(api::User { id: self.keyring.seal(id).to_string(), name })
    }

    fn order(&self, Order { id, user_id, item }: Order) -> api::Order {
        let (id, user_id) =
            (self.keyring.seal(id).to_string(), self.keyring.seal(user_id).to_string());
        api::Order { id, user_id, item }
    }
}

/// Logs the reason. It does not contain the id, and the client does not get it.
fn refused<T: OpaqueId>(reason: impl Error) -> Status {
    eprintln!("refused a `{}`: {reason}", T::PREFIX);
    no_such::<T>()
}

fn no_such<T: OpaqueId>() -> Status {
    Status::not_found(format!("no such `{}`", T::PREFIX))
}

/// A database's error can contain a row's values, so it goes to the log only.
fn internal(error: sqlx::Error) -> Status {
    eprintln!("{error}");
    Status::internal("try again later")
}

#[tonic::async_trait]
impl Shop for Service {
    async fn add_user(
        &self,
        request: Request<api::AddUserRequest>,
    ) -> Result<Response<api::User>, Status> {
        let insert = sqlx::query_as("INSERT INTO users (name) VALUES (?) RETURNING id, name");
        let name = request.into_inner().name;
        Ok(self.user(insert.bind(name).fetch_one(&self.pool).await.map_err(internal)?))
    }

    async fn get_user(
        &self,
        request: Request<api::GetUserRequest>,
    ) -> Result<Response<api::User>, Status> {
        let id = self.open::<User>(&request.into_inner().id)?;
        let select = sqlx::query_as("SELECT id, name FROM users WHERE id = ?");
        let user = select.bind(id).fetch_optional(&self.pool).await.map_err(internal)?;
        Ok(self.user(user.ok_or_else(no_such::<User>)?))
    }

    async fn add_order(
        &self,
        request: Request<api::AddOrderRequest>,
    ) -> Result<Response<api::Order>, Status> {
        let request = request.into_inner();
        let user_id = self.open::<User>(&request.user_id)?;
        let insert = "INSERT INTO orders (user_id, item) VALUES (?, ?) RETURNING id, user_id, item";
        let insert = sqlx::query_as(insert).bind(user_id).bind(request.item);
        let order = insert.fetch_one(&self.pool).await.map_err(|error| {
            match error.as_database_error() {
                // The service has shown this id, and its user has been deleted.
                Some(error) if error.is_foreign_key_violation() => no_such::<User>(),
                _ => internal(error),
            }
        })?;
        Ok(Response::new(self.order(order)))
    }

    async fn list_orders(
        &self,
        request: Request<api::ListOrdersRequest>,
    ) -> Result<Response<api::ListOrdersResponse>, Status> {
        let api::ListOrdersRequest { page_size, page_token } = request.into_inner();
        let size = match page_size {
            ..0 => return Err(Status::invalid_argument("page_size must not be negative")),
            0 => 20,
            size => u16::try_from(size).map_or(100, |size| size.min(100)),
        };
        let start = match &*page_token {
            "" => Start::First,
            token => {
                let cursor = token.parse::<Cursor<Order>>().ok();
                let position = cursor.and_then(|cursor| self.keyring.open_cursor(cursor).ok());
                Start::After(position.ok_or_else(|| {
                    Status::invalid_argument("page_token is not one of this list")
                })?)
            }
        };
        let request = PageRequest::ascending(size, start);
        let select =
            "SELECT id, user_id, item FROM orders WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?";
        let rows: Vec<Order> = sqlx::query_as(AssertSqlSafe(select))
            .bind(request.range().first())
            .bind(request.range().last())
            .bind(i64::from(request.fetch())) // one more than the page has
            .fetch_all(&self.pool)
            .await
            .map_err(internal)?;
        let page = request.finish(rows, |order| self.keyring.seal_cursor(order.id));
        let orders = page.rows.into_iter().map(|order| self.order(order)).collect();
        let next_page_token = page.next.map(|cursor| cursor.to_string()).unwrap_or_default();
        Ok(Response::new(api::ListOrdersResponse { orders, next_page_token }))
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let pool = SqlitePool::connect("sqlite:grpc.db?mode=rwc").await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let service = ShopServer::new(Service { pool, keyring: Keyring::from_env()? });
    let address = address.to_socket_addrs()?.next().ok_or("no such address")?;
    Ok(Server::builder().add_service(service).serve(address).await?)
}

/// The client has no keyring, and treats ids as texts.
async fn call(address: &str, command: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut client = ShopClient::connect(format!("http://{address}")).await?;
    Ok(match *command {
        ["add-user", name] => {
            let request = api::AddUserRequest { name: name.to_owned() };
            format!("{:?}", client.add_user(request).await?.into_inner())
        }
        ["get-user", id] => {
            let request = api::GetUserRequest { id: id.to_owned() };
            format!("{:?}", client.get_user(request).await?.into_inner())
        }
        ["add-order", user_id, item] => {
            let request =
                api::AddOrderRequest { user_id: user_id.to_owned(), item: item.to_owned() };
            format!("{:?}", client.add_order(request).await?.into_inner())
        }
        ["list-orders", page_token] => {
            let request =
                api::ListOrdersRequest { page_size: 1, page_token: page_token.to_owned() };
            format!("{:?}", client.list_orders(request).await?.into_inner())
        }
        _ => return Err(
            "expected serve, add-user NAME, get-user ID, add-order ID ITEM or list-orders TOKEN"
                .into(),
        ),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::var("ADDRESS").unwrap_or("localhost:3000".to_owned());
    let command: Vec<_> = std::env::args().skip(1).collect();
    let command: Vec<_> = command.iter().map(|word| &**word).collect();
    if command == ["serve"] {
        return serve(&address).await;
    }
    match call(&address, &command).await {
        Ok(answer) => println!("{answer}"),
        Err(error) => match error.downcast_ref::<Status>() {
            Some(status) => {
                println!("{:?}: {}", status.code(), status.message());
                std::process::exit(1);
            }
            None => return Err(error),
        },
    }
    Ok(())
}
