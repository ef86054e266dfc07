//! The handlers of the shared applications. Each framework's test has this file as a module, and gives the extractors by their names.

use std::collections::BTreeMap;

use opaque_id_core::{External, Internal};
use opaque_id_tests_frameworks::old_ids::{self, Item};
use opaque_id_tests_frameworks::shop::{self, Order};
use opaque_id_tests_frameworks::{Team, User, audiences, pages};
use opaque_id_web::RequestOldIds;

use super::{
    Accepted, Form, FromExtensions, Json, Linked, NotFound, Opened, OpenedAny, PageQuery, Pages,
    Path, Query, Refusal, RowKeyring, Shop, Viewed, linked, paged,
};

pub(crate) async fn show(
    app: Shop,
    Path(Opened(id)): Path<Opened<User>>,
) -> Result<&'static str, NotFound> {
    app.find(id)
}

pub(crate) async fn member(
    app: Shop,
    Path(member): Path<(Opened<Team>, Opened<User>, u32)>,
) -> Result<String, NotFound> {
    app.member(member)
}

pub(crate) async fn member_by_name(
    app: Shop,
    Path(member): Path<shop::Member>,
) -> Result<String, NotFound> {
    app.member_by_name(member)
}

pub(crate) async fn order(Path(order): Path<External<Order>>) -> String {
    order.to_string()
}

pub(crate) async fn filter(
    app: Shop,
    Query(filter): Query<shop::Filter>,
) -> Result<String, NotFound> {
    app.filter(filter)
}

pub(crate) async fn create(
    app: Shop,
    Json(team): Json<shop::NewTeam>,
) -> Result<Json<shop::Created>, Refusal> {
    app.create(team).map(Json)
}

pub(crate) async fn create_order(
    app: Shop,
    Json(request): Json<shop::CreateOrder>,
) -> Result<&'static str, Refusal> {
    app.create_order(request)
}

pub(crate) async fn invite(Form(invite): Form<shop::Invite>) -> String {
    shop::App::invite(&invite)
}

type Orders = shop::Accept<Accepted<shop::CreateOrder, shop::NewOrder>>;

pub(crate) async fn accepted_orders(app: Shop, Json(request): Json<Orders>) -> String {
    let all = request.orders.iter().filter(|Accepted(order, ..)| app.find(order.buyer).is_ok());
    format!("{} of {}", all.count(), request.year)
}

pub(crate) async fn lists_of_query(Query(lists): Query<shop::Lists>) -> String {
    lists.show()
}

pub(crate) async fn lists_of_form(Form(lists): Form<shop::Lists>) -> String {
    lists.show()
}

pub(crate) async fn map(Query(map): Query<BTreeMap<String, String>>) -> String {
    format!("{map:?}")
}

pub(crate) async fn node(Path(OpenedAny(node)): Path<OpenedAny<shop::Node>>) -> String {
    format!("{node:?}")
}

pub(crate) async fn move_node(Json(body): Json<shop::Move>) -> String {
    format!("{:?}", body.parent.0)
}

pub(crate) async fn parsed(parsed: Query<shop::Parsed>) -> String {
    parsed.show()
}

pub(crate) async fn ascending(app: Pages, query: pages::KeyPage) -> Linked {
    linked(app.ascending(&query))
}

pub(crate) async fn descending(app: Pages, query: pages::KeyPage) -> Linked {
    linked(app.descending(&query))
}

pub(crate) async fn rests(
    app: Pages,
    Query(filter): Query<pages::Filter>,
    query: pages::ListingPage,
) -> Result<Linked, Refusal> {
    app.rests(&filter, &query).map(linked)
}

pub(crate) async fn item(Path(Opened(id)): Path<Opened<Item>>) -> Result<String, NotFound> {
    old_ids::item(id)
}

pub(crate) async fn read(
    Path(text): Path<String>,
    keyring: RowKeyring,
    old_ids: Option<FromExtensions<RequestOldIds>>,
) -> Result<String, Refusal> {
    old_ids::read(Opened::read(&text, &keyring.0, old_ids.as_deref()))
}

pub(crate) async fn search(Query(both): Query<old_ids::Both>) -> String {
    old_ids::search(&both)
}

pub(crate) async fn order_items(Json(order): Json<old_ids::Order>) -> Result<String, Refusal> {
    old_ids::order(&order)
}

type Basket = Accepted<old_ids::CreateBasket, old_ids::Basket>;

pub(crate) async fn accept_basket(Json(Accepted(basket, ..)): Json<Basket>) -> String {
    old_ids::accepted(&basket)
}

pub(crate) async fn accept_form(Form(Accepted(basket, ..)): Form<Basket>) -> String {
    old_ids::accepted(&basket)
}

pub(crate) async fn accept_item(
    Path(Accepted(id, ..)): Path<Accepted<External<Item>, Internal<Item>>>,
) -> Result<String, NotFound> {
    old_ids::item(id)
}

pub(crate) async fn viewed() -> Viewed<Vec<External<audiences::Row>>> {
    audiences::viewed()
}

pub(crate) async fn row_of_path(Path(id): Path<Opened<audiences::Row>>) -> String {
    audiences::key(&id)
}

pub(crate) async fn row_of_query(Query(body): Query<audiences::Body>) -> String {
    audiences::key(&body.row)
}

pub(crate) async fn row_of_json(Json(body): Json<audiences::Body>) -> String {
    audiences::key(&body.row)
}

pub(crate) async fn row_of_form(Form(body): Form<audiences::Body>) -> String {
    audiences::key(&body.row)
}

pub(crate) async fn page(query: PageQuery<audiences::Row>) -> String {
    audiences::page(paged(&query))
}
