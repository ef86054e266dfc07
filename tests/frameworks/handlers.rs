//! The handlers of the shared applications. Each framework's test has this file as a module, and gives the extractors by their names.

use opaque_id_core::External;
use opaque_id_tests_frameworks::old_ids::{self, Item};
use opaque_id_tests_frameworks::shop::{self, Order, Team, User};
use opaque_id_tests_frameworks::{audiences, pages};

use super::{
    Form, Json, Linked, NotFound, Opened, PageQuery, Pages, Path, Query, Refusal, Shop, linked,
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

pub(crate) async fn ascending(app: Pages, query: pages::OfKeys) -> Linked {
    linked(app.ascending(&query))
}

pub(crate) async fn descending(app: Pages, query: pages::OfKeys) -> Linked {
    linked(app.descending(&query))
}

pub(crate) async fn rests(
    app: Pages,
    Query(filter): Query<pages::Filter>,
    query: pages::OfRests,
) -> Result<Linked, Refusal> {
    app.rests(&filter, &query).map(linked)
}

pub(crate) async fn item(Path(Opened(id)): Path<Opened<Item>>) -> Result<String, NotFound> {
    old_ids::item(id)
}

pub(crate) async fn search(Query(both): Query<old_ids::Both>) -> String {
    old_ids::search(&both)
}

pub(crate) async fn order_items(Json(order): Json<old_ids::Order>) -> Result<String, Refusal> {
    old_ids::order(&order)
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
    audiences::page(&query)
}
