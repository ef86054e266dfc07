use opaque_id_web::{NotFound, Refusal};
use rocket::{State, get, post, serde::json};

use crate::extract::{Answer, Json, Sealed, answer};
use crate::{App, Invite, User, UserView};

type View = Result<json::Json<UserView>, Answer>;

#[get("/users/<id>")]
pub fn show(id: Sealed<User>, app: &State<App>) -> View {
    let user = app.find(id.open(&app.keyring)?).ok_or_else(|| answer(NotFound.problem()))?;
    Ok(json::Json(app.keyring.view(user)))
}

#[post("/invitations", data = "<invite>")]
pub fn invite(invite: Result<Json<Invite>, Answer>, app: &State<App>) -> View {
    let Json(invite) = invite?;
    let no_row = || answer(Refusal::no_row_in_body::<User>("/user").problem());
    let user = app.find(invite.user.0).ok_or_else(no_row)?;
    Ok(json::Json(app.keyring.view(user)))
}
