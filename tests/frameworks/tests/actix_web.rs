//! actix-web 4: its own extractors parse external ids, and errors become the answer for a row that does not exist.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Json, JsonConfig, Path, PathConfig};
use actix_web::{App as Actix, HttpServer, ResponseError, get, post};
use opaque_id_core::{External, OpenError, RequestError};
use opaque_id_tests_frameworks::{App, Invitation, Invite, User, UserView};

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

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
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

#[get("/users/{id}")]
async fn show(app: Data<App>, id: Path<External<User>>) -> Result<Json<UserView>, ApiError> {
    let id = app.keyring.open(id.into_inner())?;
    let user = app.find(id).ok_or(NOT_FOUND)?;
    Ok(Json(app.keyring.view(user)))
}

#[post("/invitations")]
async fn invite(app: Data<App>, Json(invite): Json<Invite>) -> Result<Json<UserView>, ApiError> {
    let invitation: Invitation = app.keyring.accept(invite)?;
    let user = app.find(invitation.user).ok_or(UNPROCESSABLE)?;
    Ok(Json(app.keyring.view(user)))
}

#[actix_web::test]
async fn refused_ids_have_one_answer() {
    let app = App::default();
    let state = app.clone();
    let server = HttpServer::new(move || {
        Actix::new()
            .app_data(Data::new(state.clone()))
            // Malformed ids; actix-web's own answer repeats them.
            .app_data(PathConfig::default().error_handler(|_, _| NOT_FOUND.into()))
            .app_data(JsonConfig::default().error_handler(|_, _| UNPROCESSABLE.into()))
            .service(show)
            .service(invite)
    });
    let server = server.workers(1).bind("127.0.0.1:0").expect("a port");
    let address = server.addrs()[0].to_string();
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    let checked = actix_web::rt::task::spawn_blocking(move || app.check(&address)).await;
    handle.stop(false).await;
    checked.expect("every answer is right");
}
