//! Schemas for each version of schemars that has a feature.

use std::borrow::Cow;

use super::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::cursor::Cursor;
use crate::external::External;
use crate::resource::OpaqueId;
use crate::schema::{EXTENSION, Shape, cursor_shape, id_shape};

impl From<Shape> for Schema {
    fn from(shape: Shape) -> Self {
        let length = shape.example.len();
        let mut schema = json_schema!({
            "type": "string",
            "description": shape.description,
            "pattern": shape.pattern,
            "minLength": length,
            "maxLength": length + shape.grows_by,
            "examples": [shape.example],
        });
        if let Some(format) = shape.format {
            schema.insert("format".into(), format.into());
        }
        if let Some(prefix) = shape.id_of {
            schema.insert(EXTENSION.into(), prefix.into());
        }
        schema
    }
}

macro_rules! schemas {
    ($($name:ident: $shape:ident,)*) => {$(
        impl<T: OpaqueId> JsonSchema for $name<T> {
            fn schema_name() -> Cow<'static, str> {
                $shape::<T>().name.into()
            }

            /// Two resources can have the same prefix.
            fn schema_id() -> Cow<'static, str> {
                core::any::type_name::<Self>().into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $shape::<T>().into()
            }
        }
    )*};
}

schemas! { External: id_shape, Cursor: cursor_shape, }
