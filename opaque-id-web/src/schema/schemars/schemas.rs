//! Schemas for each version of schemars that has a feature.

use std::borrow::Cow;

use opaque_id_core::External;
use opaque_id_core::resource::SealedResource;

use super::schemars::{JsonSchema, Schema, SchemaGenerator};
use crate::opened::Opened;

impl<T: SealedResource> JsonSchema for Opened<T> {
    fn schema_name() -> Cow<'static, str> {
        External::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        External::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        External::<T>::json_schema(generator)
    }
}
