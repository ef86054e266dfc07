//! poem 3: its own extractors parse external ids, and errors become the answer for a row that does not exist.

use opaque_id_core::{External, OpenError, RequestError};
use opaque_id_tests_frameworks::{App, Invitation, Invite, User, UserView};
use poem::error::{ParseJsonError, ParsePathError, ResponseError};
use poem::http::StatusCode;
use poem::listener::{Acceptor as _, Listener as _, TcpListener};
use poem::web::{Data, Json, Path};
use poem::{EndpointExt as _, Response, Route, Server, get, handler, post};

/// The status that a client gets.
#[derive(Debug)]
struct ApiError(StatusCode);

/// No row has the id of the path, or an id of the body.
const NOT_FOUND: ApiError = ApiError(StatusCode::NOT_FOUND);
const UNPROCESSABLE: ApiError = ApiError(StatusCode::UNPROCESSABLE_ENTITY);

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ApiError {}

impl ResponseError for ApiError {
    fn status(&self) -> StatusCode {
        self.0
    }
}

impl From<OpenError> for ApiError {
    fn from(_: OpenError) -> Self {
        NOT_FOUND
    }
}

impl From<RequestError> for ApiError {
    fn from(_: RequestError) -> Self {
        UNPROCESSABLE
    }
}

#[handler]
fn show(app: Data<&App>, Path(id): Path<External<User>>) -> Result<Json<UserView>, poem::Error> {
    let user = find(&app, id)?;
    Ok(Json(app.keyring.view(user)))
}

fn find(app: &App, id: External<User>) -> Result<User, ApiError> {
    app.find(app.keyring.open(id)?).ok_or(NOT_FOUND)
}

#[handler]
fn invite(app: Data<&App>, Json(request): Json<Invite>) -> Result<Json<UserView>, poem::Error> {
    let user = invited(&app, request)?;
    Ok(Json(app.keyring.view(user)))
}

fn invited(app: &App, request: Invite) -> Result<User, ApiError> {
    let invitation: Invitation = app.keyring.accept(request)?;
    app.find(invitation.user).ok_or(UNPROCESSABLE)
}

#[tokio::test]
async fn refused_ids_have_one_answer() {
    let app = App::default();
    let routes = Route::new()
        .at("/users/:id", get(show))
        .at("/invitations", post(invite))
        // Malformed ids.
        .catch_error(|_: ParsePathError| async { answer(NOT_FOUND) })
        .catch_error(|_: ParseJsonError| async { answer(UNPROCESSABLE) })
        .data(app.clone());
    let listener = TcpListener::bind("127.0.0.1:0").into_acceptor().await.expect("a port");
    let address = listener.local_addr();
    let address = address[0].as_socket_addr().expect("TCP").to_string();
    let server = tokio::spawn(Server::new_with_acceptor(listener).run(routes));
    let checked = tokio::task::spawn_blocking(move || app.check(&address)).await;
    server.abort();
    checked.expect("every answer is right");
}

fn answer(error: ApiError) -> Response {
    poem::Error::from(error).into_response()
}
