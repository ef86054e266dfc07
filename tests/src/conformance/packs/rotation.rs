//! Packs follow new secrets and new dictionaries.

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_packs::{ByKey, Json, Settings};

use crate::conformance::cases::{error, rotate_while_clients_write};
use crate::conformance::mapping::dialect;
use crate::conformance::packs::{PackShop, RowOf, incompressible, keyring, secrets};
use crate::conformance::report::Outcome::Passed;
use crate::conformance::report::Verdict;
use crate::conformance::shop::{from_key, generate};
use crate::database::Database;
use crate::random::Random;

pub(super) async fn packs_are_rekeyed_and_trained<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    database.execute(&S::create_packs::<S::User, ByKey, Json>(dialect(database.kind)))?;
    let shared = keyring(0)?;
    let packs = shop
        .open_packs::<S::User, ByKey, Json>(&shared, Settings::default().pack_bytes(1_900))
        .await?;
    let other = shop
        .open_packs::<S::User, ByKey, Json>(&keyring(1)?, Settings::default().pack_bytes(1_900))
        .await?;
    let value =
        |i| format!(r#"{{"actor":"user {i}","action":"login","from":"10.0.0.{}"}}"#, i % 256);
    let rows: Vec<RowOf<S::User>> = (0..1_600).map(|i| (generate(), value(i))).collect();
    assert!(error(shop.train(&packs, 2_048).await).contains("more samples"));
    assert!(error(shop.train(&packs, 255).await).contains("256 bytes or more, found 255"));
    shop.put_all(&packs, &rows[..1_500]).await?;
    shop.merge_all(&packs).await?;
    shop.train(&packs, 2_048).await?;
    shop.put_all(&packs, &rows[1_500..]).await?;

    // The other client learns of the dictionary from a body that needs it.
    let (ids, values): (Vec<_>, Vec<_>) =
        rows.into_iter().map(|(id, text)| (id, Some(text))).unzip();
    assert_eq!(shop.get_all(&other, &ids).await?, values);

    let rekeyed = shop.rekey(&other, |_| {}).await?;
    assert!(rekeyed.packs > 1 && rekeyed.rows == 100 && rekeyed.lost == 0, "{rekeyed:?}");
    let again = shop.rekey(&other, |_| {}).await?;
    assert_eq!((again.packs, again.rows), (0, 0));
    // The old secret is no longer needed.
    let new = shop
        .open_packs::<S::User, ByKey, Json>(
            &secrets(1, None)?.into(),
            Settings::default().pack_bytes(1_900),
        )
        .await?;
    assert_eq!(shop.get_all(&new, &ids).await?, values);
    assert_eq!(shop.verify(&new, |_| {}).await?.problems, []);
    shared.replace(secrets(1, Some(0))?)?;
    shared.replace(secrets(1, None)?)?;
    assert_eq!(shop.get_all(&packs, &ids).await?, values);

    // The dictionary has more than 64 KiB.
    let mut random = Random(5);
    let large: Vec<_> =
        (0..400).map(|_| (generate(), incompressible(&mut random, 3_000))).collect();
    shop.put_all(&packs, &large).await?;
    shop.train(&packs, 110 << 10).await?;
    let longest = database.integer("MAX(LENGTH(body))", "entries_meta")?;
    assert!(longest > 1 << 16, "{longest}");
    shop.put(&packs, large[0].0, &large[1].1).await?;
    assert_eq!(shop.get(&new, large[0].0).await?.as_ref(), Some(&large[1].1));
    Ok(Passed)
}

/// Secrets are rotated while clients write. Each client then writes under the new secret, and `rekey` makes the old one
/// unnecessary.
pub(super) async fn packs_follow_a_rotation<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    const WRITERS: usize = 3;
    let shared = SharedKeyring::new(secrets(0, Some(1))?);
    database.execute(&S::create_packs::<S::Team, ByKey, Json>(dialect(database.kind)))?;
    let settings = Settings::default().pack_bytes(400);
    let packs = shop.open_packs::<S::Team, ByKey, Json>(&shared, settings.clone()).await?;
    let write = async |shop: S, number: usize, rounds: &mut dyn Iterator<Item = usize>| {
        let packs = shop.open_packs::<S::Team, ByKey, Json>(&shared, settings.clone()).await?;
        for round in rounds {
            let id = from_key(i64::try_from(round * WRITERS + number)?)?;
            shop.put(&packs, id, &format!("{number} {round}")).await?;
            if round.is_multiple_of(7) {
                shop.merge_all(&packs).await?;
            }
        }
        Ok(())
    };
    // Rotation waits until all calls that began before it have ended.
    let rotate = async |shop: S, wait: &dyn Fn()| {
        wait();
        shared.replace(secrets(1, Some(0))?)?;
        wait();
        loop {
            let rekeyed = shop.rekey(&packs, |_| {}).await?;
            if (rekeyed.packs, rekeyed.rows, rekeyed.lost) == (0, 0, 0) {
                break;
            }
        }
        shared.replace(secrets(1, None)?)?;
        wait();
        Ok(())
    };
    let written: [_; WRITERS] = rotate_while_clients_write(database, 10, write, rotate)?;
    let fresh =
        shop.open_packs::<S::Team, ByKey, Json>(&secrets(1, None)?.into(), settings).await?;
    assert_eq!(shop.verify(&fresh, |_| {}).await?.problems, []);
    for (number, written) in (0..).zip(written) {
        for i in 0..written {
            let id = from_key(i64::try_from(i * WRITERS + number)?)?;
            assert_eq!(shop.get(&fresh, id).await?, Some(format!("{number} {i}")));
        }
    }
    Ok(Passed)
}
