//! The API, and its OpenAPI document.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{ErrorResponse, IntoResponse, Result};
use opaque_id_axum::{
    InvalidPage, Json, Links, NotFound, Opened, PageQuery, Path, Refusal, Rejection,
};
use opaque_id_seaorm::inspect::inspect;
use opaque_id_seaorm::resource::SealedResource;
use opaque_id_seaorm::{
    Cursor, External, IdError, Internal, IntoModel, IntoView, Keyring, MasterSecret, OpaqueId, View,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, IdenStatic, Iterable, ModelTrait, QueryFilter, QueryOrder,
    QuerySelect, Set, SqlErr, Value,
};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::problem::{Problem, in_body, internal, rejected};
use super::secrets::{RotationError, Secrets};
use super::shop::{Resource, customer, invoice, order};

type CustomerId = External<customer::Model>;
type OrderId = External<order::Model>;
type InvoiceId = External<invoice::Model>;
type CustomerCursor = Cursor<customer::Model>;
type OrderCursor = Cursor<order::Model>;
type InvoiceCursor = Cursor<invoice::Model>;

const PROBLEM: &str = "application/problem+json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "The shop of opaque-id's demo",
        description = "The database has ordered keys, and the API shows sealed ids. Ids that are malformed, \
            altered, of another resource, sealed by a retired secret or without a row have the same answer. \
            Requests whose `Host` is not this machine, or whose `Origin` is another site, have the answer 403.",
        version = "1",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "shop", description = "What an application has."),
        (name = "demo", description = "What only this demo has: a view behind the API, and the buttons of its page.")
    )
)]
struct Document;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(list_customers))
        .routes(routes!(show_customer))
        .routes(routes!(list_orders, add_order))
        .routes(routes!(show_order))
        .routes(routes!(list_invoices))
        .routes(routes!(show_invoice))
        .routes(routes!(stored_customers))
        .routes(routes!(stored_orders))
        .routes(routes!(stored_invoices))
        .routes(routes!(list_secrets))
        .routes(routes!(rotate))
        .routes(routes!(retire))
}

/// A customer.
#[derive(Serialize, ToSchema, View)]
#[view(from = customer::Model)]
struct Customer {
    id: CustomerId,
    name: String,
}

/// An order.
#[derive(Serialize, ToSchema, View)]
#[view(from = order::Model)]
struct Order {
    id: OrderId,
    customer: CustomerId,
    item: String,
}

/// An invoice.
#[derive(Serialize, ToSchema, View)]
#[view(from = invoice::Model)]
struct Invoice {
    id: InvoiceId,
    order: OrderId,
    cents: i64,
}

/// A page of a list, and the cursors of its neighbors.
#[derive(Serialize, ToSchema)]
struct List<V, C> {
    rows: Vec<V>,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<C>,
}

/// Lists a page, oldest first. `view` converts its rows for the response.
async fn list<E: Resource, V>(
    app: &App,
    query: &PageQuery<E::Model>,
    view: impl FnOnce(&Keyring, Vec<E::Model>) -> Vec<V>,
) -> Result<(Links, Json<List<V, Cursor<E::Model>>>)> {
    let request = query.ascending();
    let order = match request.is_descending() {
        true => sea_orm::Order::Desc,
        false => sea_orm::Order::Asc,
    };
    let rows = E::find()
        .filter(E::ID.between(request.range().first(), request.range().last()))
        .order_by(E::ID, order)
        .limit(u64::from(request.fetch()))
        .all(&app.database)
        .await
        .map_err(internal)?;
    let keyring = app.keyring.current();
    let page = request.finish(rows, |row| keyring.seal_cursor(E::id(row)));
    let links = query.links(&page);
    let list = List {
        rows: view(&keyring, page.rows),
        has_more: page.has_more,
        next: page.next,
        previous: page.previous,
    };
    Ok((links, Json(list)))
}

async fn show<E, V>(app: &App, id: <E::Model as OpaqueId>::Internal) -> Result<Json<V>>
where
    E: Resource<Model: IntoView<V>>,
{
    let row = E::find().filter(E::ID.eq(id)).one(&app.database).await.map_err(internal)?;
    Ok(Json(app.keyring.current().view(row.ok_or(NotFound)?)))
}

/// Lists customers, oldest first.
#[utoipa::path(
    get, path = "/api/customers", tag = "shop", params(PageQuery<customer::Model>),
    responses((status = OK, description = "a page", body = List<Customer, CustomerCursor>), NotFound, InvalidPage)
)]
async fn list_customers(
    State(app): State<App>,
    query: PageQuery<customer::Model>,
) -> Result<impl IntoResponse> {
    list::<customer::Entity, Customer>(&app, &query, Keyring::view).await
}

/// Shows a customer.
#[utoipa::path(
    get, path = "/api/customers/{id}", tag = "shop", params(("id" = CustomerId, Path)),
    responses((status = OK, description = "the row", body = Customer), NotFound)
)]
async fn show_customer(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<customer::Model>>,
) -> Result<Json<Customer>> {
    show::<customer::Entity, _>(&app, id).await
}

/// Lists orders, oldest first.
#[utoipa::path(
    get, path = "/api/orders", tag = "shop", params(PageQuery<order::Model>),
    responses((status = OK, description = "a page", body = List<Order, OrderCursor>), NotFound, InvalidPage)
)]
async fn list_orders(
    State(app): State<App>,
    query: PageQuery<order::Model>,
) -> Result<impl IntoResponse> {
    list::<order::Entity, Order>(&app, &query, Keyring::view).await
}

/// Shows an order.
#[utoipa::path(
    get, path = "/api/orders/{id}", tag = "shop", params(("id" = OrderId, Path)),
    responses((status = OK, description = "the row", body = Order), NotFound)
)]
async fn show_order(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<order::Model>>,
) -> Result<Json<Order>> {
    show::<order::Entity, _>(&app, id).await
}

/// A new order.
#[derive(Deserialize, IntoModel, ToSchema)]
#[model(into = order::ActiveModel, with = Set, default)]
struct NewOrder {
    customer: CustomerId,
    /// The text has no control characters.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*$",
        examples("loom")
    )]
    item: String,
}

/// Adds an order.
#[utoipa::path(
    post, path = "/api/orders", tag = "shop", request_body = NewOrder,
    responses(
        (status = CREATED, description = "the new row", body = Order),
        (status = BAD_REQUEST, body = Problem, content_type = PROBLEM, description = "not JSON"),
        (status = PAYLOAD_TOO_LARGE, body = Problem, content_type = PROBLEM, description = "more than 2 MB"),
        (status = UNSUPPORTED_MEDIA_TYPE, body = Problem, content_type = PROBLEM, description = "not application/json"),
        (status = UNPROCESSABLE_ENTITY, body = Problem, content_type = PROBLEM, description = "no such customer, or a field is missing or invalid")
    )
)]
async fn add_order(
    State(app): State<App>,
    new: std::result::Result<Json<NewOrder>, Rejection<JsonRejection>>,
) -> Result<(StatusCode, Json<Order>)> {
    let Json(new) = new.map_err(rejected)?;
    if !(1..=100).contains(&new.item.chars().count()) || new.item.contains(char::is_control) {
        let expected = "expected 1 to 100 characters, none of them a control character";
        return Err(in_body("/item", expected).into());
    }
    let keyring = app.keyring.current();
    let mut row: order::ActiveModel = keyring.accept(new).map_err(Refusal::from)?;
    row.id = Set(Internal::generate());
    let row = row.insert(&app.database).await.map_err(|error| match error.sql_err() {
        Some(SqlErr::ForeignKeyConstraintViolation(_)) => {
            ErrorResponse::from(Refusal::no_row_in_body::<customer::Model>("/customer"))
        }
        _ => internal(error).into(),
    })?;
    Ok((StatusCode::CREATED, Json(keyring.view(row))))
}

/// Lists invoices, oldest first.
#[utoipa::path(
    get, path = "/api/invoices", tag = "shop", params(PageQuery<invoice::Model>),
    responses((status = OK, description = "a page", body = List<Invoice, InvoiceCursor>), NotFound, InvalidPage)
)]
async fn list_invoices(
    State(app): State<App>,
    query: PageQuery<invoice::Model>,
) -> Result<impl IntoResponse> {
    list::<invoice::Entity, Invoice>(&app, &query, Keyring::view).await
}

/// Shows an invoice.
#[utoipa::path(
    get, path = "/api/invoices/{id}", tag = "shop", params(("id" = InvoiceId, Path)),
    responses((status = OK, description = "the row", body = Invoice), NotFound)
)]
async fn show_invoice(
    State(app): State<App>,
    Path(Opened(id)): Path<Opened<invoice::Model>>,
) -> Result<Json<Invoice>> {
    show::<invoice::Entity, _>(&app, id).await
}

/// A row as its table stores it: columns and their values, with keys of 16 bytes in hexadecimal.
#[derive(Serialize, ToSchema)]
#[schema(value_type = Object)]
struct DatabaseRow(BTreeMap<&'static str, serde_json::Value>);

async fn stored<E: Resource>(
    app: &App,
    query: &PageQuery<E::Model>,
) -> Result<Json<Vec<DatabaseRow>>> {
    let columns = |row: E::Model| {
        let columns = E::Column::iter().map(|column| {
            let value = match row.get(column) {
                Value::Uuid(Some(key)) => key.simple().to_string().into(),
                Value::BigInt(Some(integer)) => integer.into(),
                Value::String(Some(text)) => text.into(),
                _ => serde_json::Value::Null,
            };
            (column.as_str(), value)
        });
        DatabaseRow(columns.collect())
    };
    let list = list::<E, _>(app, query, |_, rows| rows.into_iter().map(columns).collect());
    let (_, Json(list)) = list.await?;
    Ok(Json(list.rows))
}

/// Lists the customers of a page as the database stores them, for the demo's page only.
#[utoipa::path(
    get, path = "/demo/database/customers", tag = "demo", params(PageQuery<customer::Model>),
    responses((status = OK, description = "the rows of the page", body = Vec<DatabaseRow>), NotFound, InvalidPage)
)]
async fn stored_customers(
    State(app): State<App>,
    query: PageQuery<customer::Model>,
) -> Result<Json<Vec<DatabaseRow>>> {
    stored::<customer::Entity>(&app, &query).await
}

/// Lists the orders of a page as the database stores them, for the demo's page only.
#[utoipa::path(
    get, path = "/demo/database/orders", tag = "demo", params(PageQuery<order::Model>),
    responses((status = OK, description = "the rows of the page", body = Vec<DatabaseRow>), NotFound, InvalidPage)
)]
async fn stored_orders(
    State(app): State<App>,
    query: PageQuery<order::Model>,
) -> Result<Json<Vec<DatabaseRow>>> {
    stored::<order::Entity>(&app, &query).await
}

/// Lists the invoices of a page as the database stores them, for the demo's page only.
#[utoipa::path(
    get, path = "/demo/database/invoices", tag = "demo", params(PageQuery<invoice::Model>),
    responses((status = OK, description = "the rows of the page", body = Vec<DatabaseRow>), NotFound, InvalidPage)
)]
async fn stored_invoices(
    State(app): State<App>,
    query: PageQuery<invoice::Model>,
) -> Result<Json<Vec<DatabaseRow>>> {
    stored::<invoice::Entity>(&app, &query).await
}

/// Returns why an id is refused, or nothing, for the demo's page only: an API never tells a client.
pub(crate) async fn reason(
    State(app): State<App>,
    Path((table, id)): Path<(String, String)>,
) -> Result<String> {
    match &*table {
        "customers" => reason_of::<customer::Entity>(&app, &id).await,
        "orders" => reason_of::<order::Entity>(&app, &id).await,
        _ => reason_of::<invoice::Entity>(&app, &id).await,
    }
}

async fn reason_of<E>(app: &App, text: &str) -> Result<String>
where
    E: Resource<Model: SealedResource>,
{
    let keyring = app.keyring.current();
    let opened = text.parse::<External<E::Model>>().and_then(|id| Ok(keyring.open(id)?));
    let error = match opened {
        Ok(id) => {
            let row = E::find().filter(E::ID.eq(id)).one(&app.database).await;
            match row.map_err(internal)? {
                Some(_) => return Ok(String::new()),
                None => IdError::NoRow,
            }
        }
        Err(error) => error,
    };
    let problem = inspect(text).problem.map(|problem| format!(": {problem}"));
    Ok(format!("{error}{}", problem.unwrap_or_default()))
}

/// A secret of the keyring.
#[derive(Serialize, ToSchema)]
struct Secret {
    /// The key id that ids show.
    key_id: u8,
    /// The check value. It is equal in two keyrings with the same secret.
    check_value: String,
    /// Whether new ids are sealed with it. All secrets open.
    seals: bool,
    /// Whether it is the public secret of this document's examples.
    is_example: bool,
}

/// Lists the secrets, without their bytes.
#[utoipa::path(get, path = "/demo/secrets", tag = "demo", responses((status = OK, description = "by key id", body = Vec<Secret>)))]
async fn list_secrets(State(keyring): State<Keyring>) -> Json<Vec<Secret>> {
    let secrets = keyring.key_ids().filter_map(|key_id| {
        Some(Secret {
            key_id: key_id.get(),
            check_value: keyring.check_value(key_id)?.to_string(),
            seals: key_id == keyring.sealing_key_id(),
            is_example: key_id.get() == MasterSecret::EXAMPLE_KEY_ID,
        })
    });
    Json(secrets.collect())
}

/// Adds a secret that seals from now on. Ids of the others still open.
#[utoipa::path(
    post, path = "/demo/secrets/rotate", tag = "demo",
    responses(
        (status = NO_CONTENT, description = "done"),
        (status = CONFLICT, body = Problem, content_type = PROBLEM, description = "there are three already")
    )
)]
async fn rotate(State(app): State<App>) -> Result<StatusCode> {
    Ok(change(&app, Secrets::rotate)?)
}

/// Removes the oldest secret. Its ids are refused from now on.
#[utoipa::path(
    post, path = "/demo/secrets/retire", tag = "demo",
    responses(
        (status = NO_CONTENT, description = "done"),
        (status = CONFLICT, body = Problem, content_type = PROBLEM, description = "there is one only")
    )
)]
async fn retire(State(app): State<App>) -> Result<StatusCode> {
    Ok(change(&app, Secrets::retire)?)
}

fn change(
    app: &App,
    step: fn(&mut Secrets) -> std::result::Result<(), RotationError>,
) -> std::result::Result<StatusCode, RotationError> {
    step(&mut app.secrets.lock().unwrap_or_else(PoisonError::into_inner))?;
    Ok(StatusCode::NO_CONTENT)
}
