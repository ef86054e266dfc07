//! Schemas for each version of schemars that has a feature.

use std::borrow::Cow;

use opaque_id_core::External;
use opaque_id_core::resource::SealedResource;

use super::{JsonSchema, Name, Schema, SchemaGenerator};
use crate::opened::Opened;

impl<T: SealedResource> JsonSchema for Opened<T> {
    fn schema_name() -> Name {
        External::<T>::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        External::<T>::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        External::<T>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use opaque_id_core::OpaqueId;

    use super::*;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "user")]
    struct User;

    #[test]
    fn opened_has_the_schema_of_external() {
        let mut generator = SchemaGenerator::default();
        let schema = Opened::<User>::json_schema(&mut generator);
        assert_eq!(schema, External::<User>::json_schema(&mut generator));
        assert_eq!(Opened::<User>::schema_name(), "user_id");
        assert_eq!(Opened::<User>::schema_id(), External::<User>::schema_id());
    }
}
