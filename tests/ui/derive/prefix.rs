use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
struct LineItem;

#[derive(OpaqueId)]
#[opaque_id(key = i64)]
struct PurchaseOrder;

#[derive(OpaqueId)]
#[opaque_id(prefix = "")]
struct Empty;

#[derive(OpaqueId)]
#[opaque_id(prefix = "LineItem")]
struct Capital;

#[derive(OpaqueId)]
#[opaque_id(prefix = "2fa")]
struct Digit;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user_")]
struct Underscore;

#[derive(OpaqueId)]
#[opaque_id(prefix = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")]
struct Long;

#[derive(OpaqueId)]
#[opaque_id(prefix = 5)]
struct NotAString;

#[derive(OpaqueId)]
#[opaque_id(prefix)]
struct WithoutAValue;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", prefix = "person")]
struct Twice;
