use opaque_id_core::Keyring;
use opaque_id_web::{JsonContent, PROBLEM_JSON, Place, Problem, extract};
use poem::web::{self, Data};
use poem::{Error, FromRequest, Request, RequestBody, Response, Result};
use serde::de::DeserializeOwned;

/// poem's `Path` with `Opened<T>` as an id.
pub struct Path<T>(pub T);

impl<'a, T: DeserializeOwned + Send> FromRequest<'a> for Path<T> {
    async fn from_request(request: &'a Request, _: &mut RequestBody) -> Result<Self> {
        let keyring = keyring(request).await?;
        let theirs = || web::Path::<T>::from_request_without_body(request);
        let failed = match extract(keyring, None, Place::Url, theirs()).await {
            Ok(theirs) => return Ok(Self(theirs.0)),
            Err(failed) => failed,
        };
        let (error, refusal) = failed.again(theirs()).await;
        Err(refusal.map_or(error, |refusal| answer(refusal.problem())))
    }
}

/// poem's `Json` with `Opened<T>` as an id.
pub struct Json<T>(pub T);

impl<'a, T: DeserializeOwned + Send> FromRequest<'a> for Json<T> {
    async fn from_request(request: &'a Request, body: &mut RequestBody) -> Result<Self> {
        let keyring = keyring(request).await?;
        let body = body.take()?.into_bytes().await?;
        let theirs = async || {
            let mut body = RequestBody::new(body.clone().into());
            web::Json::<JsonContent<T>>::from_request(request, &mut body).await
        };
        let failed = match extract(keyring, None, Place::Body, theirs()).await {
            Ok(theirs) => return Ok(Self(theirs.0.0)),
            Err(failed) => failed,
        };
        let (error, refusal) = failed.again(theirs()).await;
        Err(refusal.map_or(error, |refusal| answer(refusal.problem())))
    }
}

async fn keyring(request: &Request) -> Result<Keyring> {
    Ok(Data::<&Keyring>::from_request_without_body(request).await?.clone())
}

pub fn answer(problem: Problem) -> Error {
    let response = Response::builder().status(problem.status).content_type(PROBLEM_JSON);
    Error::from_response(response.body(problem.body))
}
