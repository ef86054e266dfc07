//! Integers of 32 bits: the same wire format as `i64`, and no values that do not fit.

use opaque_id_core::{External, IdRange, Internal, OpaqueId, OpenError};

use super::new_keyring;

resources! {
    Wide(prefix = "order", key = i64, form = "text");
    Narrow(prefix = "order", key = i32, form = "text");
    Unsigned(prefix = "order", key = u32, form = "text");
    WideUuid(prefix = "order", key = i64, form = "uuid");
    NarrowUuid(prefix = "order", key = i32, form = "uuid");
    UnsignedUuid(prefix = "order", key = u32, form = "uuid");
}

fn id<T: OpaqueId>(key: T::Key) -> T::Internal {
    use opaque_id_core::key::Key as _;
    use opaque_id_core::resource::InternalId as _;
    T::Internal::from_repr(key.into_repr()).expect("it fits")
}

/// A column that becomes wider changes no id, even if its resource's key does.
#[test]
fn the_wire_format_is_the_same_for_all_integers() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    for key in [0, 1, 42, i32::MAX] {
        let (wide, unsigned) = (i64::from(key), key.cast_unsigned());
        let text = keyring.seal(id::<Wide>(wide)).to_string();
        assert_eq!(keyring.seal(id::<Narrow>(key)).to_string(), text);
        assert_eq!(keyring.seal(id::<Unsigned>(unsigned)).to_string(), text);
        let uuid = keyring.seal(id::<WideUuid>(wide)).to_string();
        assert_eq!(keyring.seal(id::<NarrowUuid>(key)).to_string(), uuid);
        assert_eq!(keyring.seal(id::<UnsignedUuid>(unsigned)).to_string(), uuid);
        let narrow: External<Narrow> = text.parse()?;
        assert_eq!(keyring.open(narrow)?, id::<Narrow>(key));
        let unsigned_id: External<UnsignedUuid> = uuid.parse()?;
        assert_eq!(keyring.open(unsigned_id)?, id::<UnsignedUuid>(unsigned));
        let cursor = keyring.seal_cursor(id::<Narrow>(key)).to_string();
        assert_eq!(cursor, keyring.seal_cursor(id::<Wide>(wide)).to_string());
    }
    let negative = keyring.seal(id::<Narrow>(-7)).to_string();
    assert_eq!(negative, keyring.seal(id::<Wide>(-7)).to_string());
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let keyring = new_keyring(0);
    for key in [1 << 31, u32::MAX.into(), 1 << 32, i64::MAX, i64::MIN] {
        let text = keyring.seal(id::<Wide>(key)).to_string();
        let narrow = keyring.open(text.parse::<External<Narrow>>()?);
        assert_eq!(narrow, Err(OpenError::NotGenuine));
        let unsigned = keyring.open(text.parse::<External<Unsigned>>()?);
        match u32::try_from(key) {
            Ok(key) => assert_eq!(unsigned?, id::<Unsigned>(key)),
            Err(_) => assert_eq!(unsigned, Err(OpenError::NotGenuine)),
        }
        let cursor = keyring.seal_cursor(id::<Wide>(key)).to_string();
        assert!(keyring.open_cursor::<Narrow>(cursor.parse()?).is_err());
    }
    let uuid = keyring.seal(id::<WideUuid>(1 << 40)).to_string();
    let narrow = keyring.open(uuid.parse::<External<NarrowUuid>>()?);
    assert_eq!(narrow, Err(OpenError::NotGenuine));
    let negative = Internal::<NarrowUuid>::from_key(-1).expect_err("negative");
    assert!(negative.to_string().contains("from 0 to 2^60 - 1"));
    for key in [-1, 1 << 60, i64::MIN, i64::MAX] {
        assert!(Internal::<WideUuid>::from_key(key).is_err());
        assert!(Internal::<Wide>::from_key(key).is_ok());
    }
    Ok(())
}

#[test]
fn ranges_end_where_the_integers_do() {
    fn check<T: OpaqueId<Internal = Internal<T>>>(first: T::Key, last: T::Key) {
        let all = IdRange::<Internal<T>>::all();
        assert_eq!((all.first(), all.last()), (id::<T>(first), id::<T>(last)));
    }
    check::<Narrow>(i32::MIN, i32::MAX);
    check::<NarrowUuid>(0, i32::MAX);
    check::<Unsigned>(0, u32::MAX);
    check::<UnsignedUuid>(0, u32::MAX);
    let end = IdRange::all().starting_after(Some(id::<Unsigned>(u32::MAX)));
    assert!(end.is_empty());
    let start = IdRange::all().ending_before(Some(id::<Unsigned>(0)));
    assert!(start.is_empty());
}
