//! After a keyring is dropped, the process's memory contains none of its secrets. Another process reads the
//! memory. This is a separate program that starts itself as the process to inspect.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the memory of a process can't be read from outside on this system");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    match (args.next(), args.next()) {
        (Some(file), Some(single)) if args.next().is_none() => linux::observed(&file, &single),
        _ => linux::observe(),
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use opaque_id_core::form::FormKind;
    use opaque_id_core::generator::PseudoOrderedGenerator;
    use opaque_id_core::key::{AnyKey, KeyKind};
    use opaque_id_core::keyring::RuntimeResource;
    use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
    use zeroize::Zeroizing;

    type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "user", form = "tagged")]
    struct User;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "invoice", key = i64, form = "uuid")]
    struct Invoice;

    /// Runs the inspected process: a keyring from a file, and one from a builder.
    pub(super) fn observed(file: &OsStr, single: &OsStr) -> Result {
        let of_file = Keyring::from_file(file)?;
        let secret = read(single)?;
        let built = Keyring::builder()
            .opening(1, MasterSecret::generate())
            .sealing(0, secret.clone())
            .opening(2, MasterSecret::generate())
            .build()?;
        let hour = Duration::from_secs(3_600);
        let pseudo = PseudoOrderedGenerator::new(&secret, hour, 16)?;
        for keyring in [&of_file, &built] {
            let user = Internal::<User>::generate();
            assert!(keyring.open(keyring.seal(user)).is_ok());
            assert!(keyring.open_cursor(keyring.seal_cursor(user)).is_ok());
            let invoice = Internal::<Invoice>::from_key(42)?;
            assert!(keyring.open(keyring.seal(invoice)).is_ok());
            assert!(keyring.check_value(keyring.sealing_key_id()).is_some());
            let (kind, form) = (KeyKind::I64, FormKind::TEXT);
            let runtime = RuntimeResource::new(keyring, "user", "user", kind, form)?;
            let id = runtime.seal(AnyKey::Int(42))?;
            assert!(runtime.open(&id).is_ok());
            let exported = keyring.with_id_subkeys(keyring.sealing_key_id(), "user", |subkeys| {
                RuntimeResource::with_subkeys("user", kind, form, |_| Some(subkeys))
            });
            assert!(exported.is_some_and(|exported| exported.is_ok_and(|it| it.open(&id).is_ok())));
        }
        let _ = pseudo.generate();

        wait("alive")?;
        drop((of_file, built, pseudo, secret));
        wait("dropped")
    }

    /// Reads a single secret, and wipes its digits from the buffer.
    fn read(file: &OsStr) -> Result<MasterSecret> {
        let mut hex = Zeroizing::new([0; 64]);
        File::open(file)?.read_exact(&mut *hex)?;
        Ok(MasterSecret::from_hex(str::from_utf8(&*hex)?)?)
    }

    /// Reports this process's state, and waits until it has been inspected.
    fn wait(state: &str) -> Result {
        println!("{state}");
        std::io::stdout().flush()?;
        std::io::stdin().read_exact(&mut [0])?;
        Ok(())
    }

    pub(super) fn observe() -> Result {
        let folder = tempfile::tempdir()?;
        let secrets = [MasterSecret::generate(), MasterSecret::generate()];
        let (file, single) = (folder.path().join("keys"), folder.path().join("secret"));
        secrets[0].expose_hex(|hex| write(&file, &format!("# ours\n3:{hex}\n")))?;
        secrets[1].expose_hex(|hex| write(&single, hex))?;
        let traces: Vec<Trace> = secrets.iter().flat_map(traces).collect();

        let mut child = Command::new(std::env::current_exe()?)
            .args([&file, &single])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut states = BufReader::new(child.stdout.take().ok_or("piped")?).lines();

        assert_eq!(states.next().ok_or("no state")??, "alive");
        let alive = found(&child, &traces)?;
        // Without these traces, a later search would prove nothing.
        for needed in ["master secret, end", "PRK", "block", "feistel 5, round 10"] {
            let count = alive.iter().filter(|name| **name == needed).count();
            assert!(count >= 1, "{needed} is not there while the keyring lives");
        }
        child.stdin.as_mut().ok_or("piped")?.write_all(b"\n")?;

        assert_eq!(states.next().ok_or("no state")??, "dropped");
        let mut left = found(&child, &traces)?;
        if cfg!(feature = "portable") {
            // With AVX-512 and VAES, the `aes` crate copies the round keys to the stack for each block.
            let of_master = ["hex digits", "master secret", "PRK", "HMAC"];
            left.retain(|name| of_master.iter().any(|start| name.starts_with(start)));
        }
        child.stdin.as_mut().ok_or("piped")?.write_all(b"\n")?;
        assert!(child.wait()?.success());
        assert!(left.is_empty(), "left in memory: {left:?}");
        println!(
            "{} traces of secrets: {} while they lived, none after",
            traces.len(),
            alive.len()
        );
        Ok(())
    }

    fn write(path: &Path, text: &str) -> Result {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        Ok(options.open(path)?.write_all(text.as_bytes())?)
    }

    /// The name and the bytes of a trace that would reveal a secret.
    type Trace = (String, Vec<u8>);

    fn traces(secret: &MasterSecret) -> Vec<Trace> {
        let hex = secret.expose_hex(str::to_owned);
        let master: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex")).collect();
        let (prk, hkdf) = hkdf::Hkdf::<sha2::Sha256>::extract(Some(b"opaque-id.v1"), &master);
        let pad = |byte: u8| prk.iter().map(|key| key ^ byte).collect::<Vec<u8>>();
        let mut named = vec![
            ("hex digits, start".to_owned(), hex.as_bytes()[..16].to_vec()),
            // A freed piece of the heap loses its first 16 bytes.
            ("hex digits, middle".into(), hex.as_bytes()[16..32].to_vec()),
            ("hex digits, end".into(), hex.as_bytes()[48..].to_vec()),
            ("master secret, start".into(), master[..16].to_vec()),
            ("master secret, end".into(), master[16..].to_vec()),
            ("PRK".into(), prk[..16].to_vec()),
            ("PRK, end".into(), prk[16..].to_vec()),
            ("HMAC's inner key".into(), pad(0x36)),
            ("HMAC's outer key".into(), pad(0x5c)),
        ];
        for (label, domain, len) in [
            ("block", "user", 16),
            ("mac", "user", 16),
            ("cursor", "user", 32),
            ("tag", "invoice", 8),
            ("feistel", "invoice", 96),
            ("window", "", 16),
        ] {
            let mut subkeys = vec![0; len];
            hkdf.expand_multi_info(&[label.as_bytes(), &[0], domain.as_bytes()], &mut subkeys)
                .expect("short enough");
            for (i, key) in subkeys.chunks(16).enumerate() {
                let name = match i {
                    0 => label.to_owned(),
                    _ => format!("{label} {i}"),
                };
                if let Ok(key) = key.try_into() {
                    for (round, key) in round_keys(key).iter().enumerate().skip(1) {
                        named.push((format!("{name}, round {round}"), key.to_vec()));
                    }
                }
                named.push((name, key.to_vec()));
            }
        }
        named
    }

    /// Expands a key (FIPS 197, section 5.2).
    fn round_keys(key: &[u8; 16]) -> [[u8; 16]; 11] {
        fn times_two(byte: u8) -> u8 {
            byte << 1 ^ if byte >> 7 == 1 { 0x1b } else { 0 }
        }
        fn times(a: u8, b: u8) -> u8 {
            let (mut product, mut power) = (0, a);
            for bit in 0..8 {
                if b >> bit & 1 == 1 {
                    product ^= power;
                }
                power = times_two(power);
            }
            product
        }
        fn substitute(byte: u8) -> u8 {
            let inverse = (0..=255).find(|other| times(byte, *other) == 1).unwrap_or(0);
            (0..5).fold(0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
        }
        let mut keys = [*key; 11];
        let mut constant = 1;
        for i in 1..11 {
            let last = keys[i - 1];
            let mut word = [13, 14, 15, 12].map(|at| substitute(last[at]));
            word[0] ^= constant;
            constant = times_two(constant);
            for at in 0..16 {
                word[at % 4] ^= last[at];
                keys[i][at] = word[at % 4];
            }
        }
        keys
    }

    /// Returns the names of the traces in a process's memory, one per occurrence.
    fn found<'t>(child: &Child, traces: &'t [Trace]) -> Result<Vec<&'t str>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id()))?;
        let memory = File::open(format!("/proc/{}/mem", child.id()))?;
        let mut found = Vec::new();
        for line in maps.lines() {
            let (range, rest) = line.split_once(' ').ok_or("a range")?;
            let (start, end) = range.split_once('-').ok_or("two addresses")?;
            let start = u64::from_str_radix(start, 16)?;
            let end = u64::from_str_radix(end, 16)?;
            if !rest.starts_with("rw") {
                continue;
            }
            let mut bytes = vec![0; usize::try_from(end - start)?];
            memory.read_exact_at(&mut bytes, start).map_err(|error| format!("{line}: {error}"))?;
            for (name, trace) in traces {
                let hits = occurrences(&bytes, trace);
                found.extend(std::iter::repeat_n(name.as_str(), hits));
            }
        }
        Ok(found)
    }

    fn occurrences(whole: &[u8], piece: &[u8]) -> usize {
        let first = piece[0];
        let starts = whole.iter().enumerate().filter(|(_, byte)| **byte == first);
        starts.filter(|(at, _)| whole[*at..].starts_with(piece)).count()
    }
}
