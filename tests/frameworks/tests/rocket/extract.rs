use std::convert::Infallible;

use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, IdError, Keyring};
use opaque_id_web::{JsonContent, Place, Problem, Refusal, extract};
use rocket::data::{self, FromData, Limits};
use rocket::http::Status;
use rocket::outcome::Outcome;
use rocket::request::FromParam;
use rocket::{Data, Request, Responder, async_trait};
use serde::de::DeserializeOwned;

/// A handler's answer in place of a row.
#[derive(Debug, Responder)]
#[response(content_type = "application/problem+json")]
pub struct Answer((Status, String));

pub fn answer(problem: Problem) -> Answer {
    Answer((Status::new(problem.status.as_u16()), problem.body))
}

/// An id in a path. rocket has no keyring where it reads one, so the handler opens it.
pub struct Sealed<T: SealedResource>(Result<External<T>, IdError>);

impl<T: SealedResource> FromParam<'_> for Sealed<T> {
    type Error = Infallible;

    fn from_param(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.parse()))
    }
}

impl<T: SealedResource> Sealed<T> {
    pub fn open(self, keyring: &Keyring) -> Result<T::Internal, Answer> {
        let id = self.0.map_err(Refusal::in_url::<T>);
        let opened = id.and_then(|id| keyring.open(id).map_err(Refusal::in_url::<T>));
        opened.map_err(|refusal| answer(refusal.problem()))
    }
}

/// A body with `Opened<T>` as an id. A handler has it as `Result<Json<T>, Answer>`.
pub struct Json<T>(pub T);

#[async_trait]
impl<'r, T: DeserializeOwned + Send> FromData<'r> for Json<T> {
    type Error = Answer;

    async fn from_data(request: &'r Request<'_>, data: Data<'r>) -> data::Outcome<'r, Self> {
        match read(request, data).await {
            Ok(value) => Outcome::Success(Self(value)),
            Err(answer) => Outcome::Error((answer.0.0, answer)),
        }
    }
}

async fn read<T: DeserializeOwned>(request: &Request<'_>, data: Data<'_>) -> Result<T, Answer> {
    let other = |status: Status| {
        let Status { code } = status;
        Answer((status, format!(r#"{{"type":"about:blank","status":{code}}}"#)))
    };
    let keyring = request.rocket().state::<Keyring>();
    let keyring = keyring.ok_or_else(|| other(Status::InternalServerError))?;
    let limit = request.limits().get("json").unwrap_or(Limits::JSON);
    let body = data.open(limit).into_bytes().await.map_err(|_| other(Status::BadRequest))?;
    if !body.is_complete() {
        return Err(other(Status::PayloadTooLarge));
    }
    let parse = async || serde_json::from_slice::<JsonContent<T>>(&body);
    let failed = match extract(keyring.clone(), None, Place::Body, parse()).await {
        Ok(JsonContent(value)) => return Ok(value),
        Err(failed) => failed,
    };
    let (_, refusal) = failed.again(parse()).await;
    Err(refusal.map_or_else(|| other(Status::BadRequest), |refusal| answer(refusal.problem())))
}
