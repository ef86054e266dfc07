//! OpenAPI schemas.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::StatusCode;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{Cursor, External, OpaqueId};

use super::utoipa::openapi::path::{Parameter, ParameterIn};
use super::utoipa::openapi::schema::{Array, KnownFormat, Object, SchemaFormat, Type};
use super::utoipa::openapi::{Content, RefOr, Required, Response, Schema};
use super::utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};
use crate::opened::Opened;
use crate::page::{ENDING_BEFORE, InvalidPage, LIMIT, ListingQuery, PageQuery, STARTING_AFTER};
use crate::problem::PROBLEM_JSON;
use crate::refusal::{NotFound, Refusal};

impl<T: SealedResource> PartialSchema for Opened<T> {
    fn schema() -> RefOr<Schema> {
        External::<T>::schema()
    }
}

impl<T: SealedResource> ToSchema for Opened<T> {
    fn name() -> Cow<'static, str> {
        External::<T>::name()
    }
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> IntoParams for PageQuery<T, DEFAULT, MAX> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        page_parameters(DEFAULT, MAX, &Cursor::<T>::schema())
    }
}

impl<const DEFAULT: u16, const MAX: u16> IntoParams for ListingQuery<DEFAULT, MAX> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let position = Object::builder().schema_type(Type::String);
        page_parameters(DEFAULT, MAX, &position.into())
    }
}

fn page_parameters(default: u16, max: u16, cursor: &RefOr<Schema>) -> Vec<Parameter> {
    let parameter = |name, description, schema: RefOr<Schema>| {
        Parameter::builder()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(schema))
            .build()
    };
    let limit = Object::builder()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(1))
        .maximum(Some(max))
        .default(Some(default.into()));
    vec![
        parameter(LIMIT, "The number of rows of the page, at most.", limit.into()),
        parameter(
            STARTING_AFTER,
            "The cursor of the previous page's end. Not together with `ending_before`.",
            cursor.clone(),
        ),
        parameter(
            ENDING_BEFORE,
            "The cursor of the next page's beginning. Not together with `starting_after`.",
            cursor.clone(),
        ),
    ]
}

fn problem<const N: usize>(
    status: StatusCode,
    description: &str,
    more: [(&str, RefOr<Schema>); N],
) -> Response {
    let text = || Object::builder().schema_type(Type::String);
    let number = Object::builder().schema_type(Type::Integer);
    let mut schema = Object::builder()
        .property("type", text())
        .property("title", text())
        .property("status", number.enum_values(Some([status.as_u16()])))
        .required("type")
        .required("title")
        .required("status");
    for (name, member) in more {
        schema = schema.property(name, member).required(name);
    }
    let content = Content::builder().schema(Some(schema)).build();
    Response::builder().description(description).content(PROBLEM_JSON, content).build()
}

fn responses(status: StatusCode, response: Response) -> BTreeMap<String, RefOr<Response>> {
    BTreeMap::from([(status.as_str().to_owned(), response.into())])
}

impl IntoResponses for NotFound {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let status = StatusCode::NOT_FOUND;
        responses(status, problem(status, "There is no such row.", []))
    }
}

impl IntoResponses for Refusal {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let text = || Object::builder().schema_type(Type::String);
        let error = Object::builder()
            .property("pointer", text().description(Some("A JSON pointer (RFC 6901) to the id.")))
            .property("detail", text())
            .required("pointer")
            .required("detail");
        let errors = Array::builder().items(error);
        responses(
            status,
            problem(status, "An id in the body has no row.", [("errors", errors.into())]),
        )
    }
}

impl IntoResponses for InvalidPage {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let status = StatusCode::BAD_REQUEST;
        let detail = Object::builder().schema_type(Type::String);
        responses(
            status,
            problem(status, "The parameters are not a page.", [("detail", detail.into())]),
        )
    }
}
