//! OpenAPI schemas for each version of utoipa that has a feature.

use std::borrow::Cow;

use super::utoipa::openapi::extensions::Extensions;
use super::utoipa::openapi::schema::{Object, SchemaFormat, Type};
use super::utoipa::openapi::{RefOr, Schema};
use super::utoipa::{PartialSchema, ToSchema};
use crate::cursor::Cursor;
use crate::external::External;
use crate::resource::OpaqueId;
use crate::schema::{EXTENSION, Shape, cursor_shape, id_shape};

impl From<Shape> for RefOr<Schema> {
    fn from(shape: Shape) -> Self {
        let length = shape.example.len();
        Object::builder()
            .schema_type(Type::String)
            .description(Some(shape.description))
            .pattern(Some(shape.pattern))
            .format(shape.format.map(|format| SchemaFormat::Custom(format.into())))
            .min_length(Some(length))
            .max_length(Some(length + shape.grows_by))
            .examples([shape.example])
            .extensions(shape.id_of.map(|prefix| Extensions::from_iter([(EXTENSION, prefix)])))
            .into()
    }
}

macro_rules! schemas {
    ($($name:ident: $shape:ident,)*) => {$(
        impl<T: OpaqueId> PartialSchema for $name<T> {
            fn schema() -> RefOr<Schema> {
                $shape::<T>().into()
            }
        }

        impl<T: OpaqueId> ToSchema for $name<T> {
            fn name() -> Cow<'static, str> {
                $shape::<T>().name.into()
            }
        }
    )*};
}

schemas! { External: id_shape, Cursor: cursor_shape, }
