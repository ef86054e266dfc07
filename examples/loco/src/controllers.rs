use axum::response::Result;
// The extractors are imported by name because the prelude has axum's.
use loco_rs::prelude::*;
use opaque_id_axum::lent::{Json, PageQuery, Path, Query};
use opaque_id_axum::{Links, NotFound, Opened, Refusal, RequestKeyring, Viewed};
use opaque_id_seaorm::{Cursor, External, Keyring, View};
use sea_orm::SqlErr;
use serde::{Deserialize, Serialize};

use crate::models::{comments, notes, users};

#[derive(Serialize, View)]
#[view(from = users::Model)]
struct UserView {
    id: External<users::Model>,
    name: String,
}

#[derive(Serialize, View)]
#[view(from = notes::Model)]
struct NoteView {
    id: External<notes::Model>,
    user_id: External<users::Model>,
    text: String,
}

#[derive(Serialize, View)]
#[view(from = comments::Model)]
struct CommentView {
    id: External<comments::Model>,
    user_id: External<users::Model>,
    text: String,
}

#[derive(Deserialize)]
struct NewUser {
    name: String,
}

/// `POST /users`
async fn add_user(
    State(app): State<AppContext>,
    Json(new): Json<NewUser>,
) -> Result<Viewed<UserView>> {
    let user = users::ActiveModel { name: Set(new.name), ..Default::default() };
    Ok(Viewed::of(user.insert(&app.db).await.map_err(loco_rs::Error::from)?))
}

/// `GET /users/user_…`
async fn show_user(
    State(app): State<AppContext>,
    Path(Opened(id)): Path<Opened<users::Model>>,
) -> Result<Viewed<UserView>> {
    let user = users::Entity::find_by_id(id).one(&app.db).await.map_err(loco_rs::Error::from)?;
    Ok(Viewed::of(user.ok_or(NotFound)?))
}

#[derive(Deserialize)]
struct NewNote {
    user_id: Opened<users::Model>,
    text: String,
}

/// `POST /notes {"user_id": "user_…", "text": "…"}`
async fn add_note(
    State(app): State<AppContext>,
    Json(new): Json<NewNote>,
) -> Result<Viewed<NoteView>> {
    let note = notes::ActiveModel {
        user_id: Set(new.user_id.0),
        text: Set(new.text),
        ..Default::default()
    };
    Ok(Viewed::of(note.insert(&app.db).await.map_err(no_user)?))
}

#[derive(Deserialize)]
struct Filter {
    #[serde(default)]
    user: Vec<Opened<users::Model>>,
}

#[derive(Serialize)]
struct NoteList {
    notes: Vec<NoteView>,
    next: Option<Cursor<notes::Model>>,
}

/// `GET /notes?user=user_…&user=user_…&starting_after=note_cursor_…`
async fn list_notes(
    State(app): State<AppContext>,
    RequestKeyring(keyring): RequestKeyring,
    Query(filter): Query<Filter>,
    PageQuery(query): PageQuery<notes::Model>,
) -> Result<(Links, Viewed<NoteList>)> {
    let users = filter.user.into_iter().map(|Opened(id)| id);
    let request = query.ascending();
    let order = match request.is_descending() {
        true => Order::Desc,
        false => Order::Asc,
    };
    let rows = notes::Entity::find()
        .filter(notes::Column::UserId.is_in(users))
        .filter(notes::Column::Id.between(request.range().first(), request.range().last()))
        .order_by(notes::Column::Id, order)
        .limit(u64::from(request.fetch()));
    let rows = rows.all(&app.db).await.map_err(loco_rs::Error::from)?;
    let page = request.finish(rows, |note| keyring.seal_cursor(note.id));
    let links = query.links(&page);
    let list =
        move |keyring: &Keyring| NoteList { notes: keyring.view(page.rows), next: page.next };
    Ok((links, Viewed::by(list)))
}

/// `POST /notes/note_…/comments {"user_id": "user_…", "text": "…"}`
async fn add_comment(
    State(app): State<AppContext>,
    Path(Opened(note_id)): Path<Opened<notes::Model>>,
    Json(new): Json<NewNote>,
) -> Result<Viewed<CommentView>> {
    let note = notes::Entity::find_by_id(note_id).one(&app.db).await;
    let note = note.map_err(loco_rs::Error::from)?.ok_or(NotFound)?;
    let comment = comments::ActiveModel {
        note_id: Set(note.id),
        user_id: Set(new.user_id.0),
        text: Set(new.text),
        ..Default::default()
    };
    Ok(Viewed::of(comment.insert(&app.db).await.map_err(no_user)?))
}

/// `GET /notes/note_…/comments`
async fn list_comments(
    State(app): State<AppContext>,
    Path(Opened(note_id)): Path<Opened<notes::Model>>,
) -> Result<Viewed<Vec<CommentView>>> {
    let note = notes::Entity::find_by_id(note_id).one(&app.db).await;
    let note = note.map_err(loco_rs::Error::from)?.ok_or(NotFound)?;
    let rows = comments::Entity::find().filter(comments::Column::NoteId.eq(note.id));
    Ok(Viewed::of(rows.all(&app.db).await.map_err(loco_rs::Error::from)?))
}

/// Refuses a user's id that opened but has no row.
fn no_user(error: DbErr) -> Response {
    match error.sql_err() {
        Some(SqlErr::ForeignKeyConstraintViolation(_)) => {
            Refusal::no_row_in_body::<users::Model>("/user_id").into_response()
        }
        _ => loco_rs::Error::from(error).into_response(),
    }
}

pub fn routes() -> Routes {
    Routes::new()
        .add("/users", post(add_user))
        .add("/users/{id}", get(show_user))
        .add("/notes", get(list_notes).post(add_note))
        .add("/notes/{id}/comments", get(list_comments).post(add_comment))
}
