//! Schemas for each version of schemars that has a feature.

use std::borrow::Cow;

use serde_json::json;

use super::{JsonSchema, Name, Schema, SchemaGenerator};
use crate::cursor::Cursor;
use crate::external::External;
use crate::resource::OpaqueId;
use crate::schema::{EXTENSION, Shape, cursor_shape, id_shape};

impl From<Shape> for Schema {
    fn from(shape: Shape) -> Self {
        let length = shape.example.len();
        let mut schema = json!({
            "type": "string",
            "description": shape.description,
            "pattern": shape.pattern,
            "minLength": length,
            "maxLength": length + shape.grows_by,
            "examples": [shape.example],
        });
        if let Some(format) = shape.format {
            schema["format"] = format.into();
        }
        if let Some(prefix) = shape.id_of {
            schema[EXTENSION] = prefix.into();
        }
        serde_json::from_value(schema).expect("an object is a schema")
    }
}

macro_rules! schemas {
    ($($name:ident: $shape:ident,)*) => {$(
        impl<T: OpaqueId> JsonSchema for $name<T> {
            fn schema_name() -> Name {
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
