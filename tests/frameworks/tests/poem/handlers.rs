use opaque_id_web::{NotFound, Opened, Refusal};
use poem::web::Data;
use poem::{Result, handler, web};

use crate::extract::{Json, Path, answer};
use crate::{App, Invite, User, UserView};

#[handler]
pub fn show(app: Data<&App>, Path(Opened(id)): Path<Opened<User>>) -> Result<web::Json<UserView>> {
    let user = app.find(id).ok_or_else(|| answer(NotFound.problem()))?;
    Ok(web::Json(app.keyring.view(user)))
}

#[handler]
pub fn invite(app: Data<&App>, Json(invite): Json<Invite>) -> Result<web::Json<UserView>> {
    let no_row = || answer(Refusal::no_row_in_body::<User>("/user").problem());
    let user = app.find(invite.user.0).ok_or_else(no_row)?;
    Ok(web::Json(app.keyring.view(user)))
}
