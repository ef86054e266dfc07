use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = "uuid7")]
struct KeyOfAString;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = u64)]
struct KeyOfAnotherType;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", form = "base58")]
struct UnknownForm;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", kind = "uuid7")]
struct UnknownOption;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", domain = "")]
struct EmptyDomain;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", crate = "opaque id")]
struct CrateWithoutAPath;

#[derive(OpaqueId)]
#[opaque_id(prefix = "User", form = "base58", domain = "")]
struct SeveralMistakes;
