//! Parent and child of a fork generate different keys, even if the raw `clone` system call creates the child.
//! This is a separate program, because a test harness has threads and a child does not.

#[cfg(not(unix))]
fn main() {
    println!("there is no fork on this system");
}

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    unix::main()
}

#[cfg(unix)]
mod unix {
    use std::collections::HashSet;
    use std::error::Error;
    use std::io::{Read, Write};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use opaque_id_core::generator::{
        Clock, Generate, Int64Generator, Random, SystemRandom, UlidGenerator, Uuid7Generator,
        Uuid7Method, Uuid8Generator,
    };
    use opaque_id_core::key::{StructuredKey, Ulid, Uuid, Uuid7};
    use opaque_id_core::layout::{Int64Layout, Uuid8Layout};

    /// A clock that gives parent and child the same time.
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_secs(1_645_557_742)
        }
    }

    type Generator = (&'static str, Box<dyn Fn() -> u128>);

    fn generators() -> Result<Vec<Generator>, Box<dyn Error>> {
        let random = SystemRandom;
        let sevens = Uuid7Generator::with(Uuid7Method::Fraction, Stopped, random);
        // The keys of the stopped clock queue.
        drop(sevens.generate_all(100_000));
        let method_2 = Uuid7Generator::with(Uuid7Method::MonotonicRandom, Stopped, random);
        let eights = Uuid8Generator::with(Uuid8Layout::MILLIS_48, Stopped, random);
        let ulids = UlidGenerator::with(Stopped, random);
        let integers = Int64Generator::with(Int64Layout::with_node_bits(8)?, 17, Stopped, random)?;
        let bits = |uuid: Uuid| uuid.as_u128();
        Ok(vec![
            (RANDOM, Box::new(|| SystemRandom.next_u64().into())),
            ("Uuid7", Box::new(move || bits(Uuid7::generate().into()))),
            ("Ulid", Box::new(move || bits(Ulid::generate().into()))),
            ("StructuredKey", Box::new(move || bits(StructuredKey::generate().into()))),
            ("Uuid7 of a stopped clock", Box::new(move || bits(sevens.generate().into()))),
            ("Uuid7 of method 2", Box::new(move || bits(method_2.generate().into()))),
            ("UUIDv8", Box::new(move || bits(eights.generate().expect("room")))),
            (
                "Ulid of a stopped clock",
                Box::new(move || bits(ulids.generate().expect("room").into())),
            ),
            (
                "64-bit id",
                Box::new(move || integers.generate().expect("room").cast_unsigned().into()),
            ),
        ])
    }

    const RANDOM: &str = "random number";
    const EACH: usize = 1_000;

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        compare("fork", || Ok(fork::fork()?))?;
        #[cfg(target_os = "linux")]
        compare("clone", raw_clone)?;
        Ok(())
    }

    /// Forks like container runtimes and sandboxes: no fork handler of the C library runs.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    fn raw_clone() -> Result<fork::Fork, Box<dyn Error>> {
        let flags = libc::c_long::from(libc::SIGCHLD);
        // On s390x the stack comes first.
        let [first, second] = if cfg!(target_arch = "s390x") { [0, flags] } else { [flags, 0] };
        // SAFETY: without CLONE_VM the child is a copy, as of `fork`; this process has one thread, so no lock
        // is held by another.
        match unsafe { libc::syscall(libc::SYS_clone, first, second, 0_u64, 0_u64, 0_u64) } {
            0 => Ok(fork::Fork::Child),
            child if child > 0 => Ok(fork::Fork::Parent(child.try_into()?)),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    fn compare(
        call: &str,
        split: impl FnOnce() -> Result<fork::Fork, Box<dyn Error>>,
    ) -> Result<(), Box<dyn Error>> {
        let generators = generators()?;
        let keys = || generators.iter().map(|(_, generate)| generate());
        let before: Vec<u128> = keys().collect();

        let (mut reader, mut writer) = std::io::pipe()?;
        match split()? {
            fork::Fork::Child => {
                for key in (0..EACH).flat_map(|_| keys()) {
                    writer.write_all(&key.to_le_bytes())?;
                }
                std::process::exit(0);
            }
            fork::Fork::Parent(child) => {
                drop(writer);
                let mut ours = vec![HashSet::new(); generators.len()];
                for _ in 0..EACH {
                    for (set, key) in ours.iter_mut().zip(keys()) {
                        set.insert(key);
                    }
                }
                let mut theirs = Vec::new();
                reader.read_to_end(&mut theirs)?;
                fork::waitpid(child)?;
                let theirs = theirs.as_chunks::<16>().0;
                assert_eq!(theirs.len(), EACH * generators.len(), "the child has failed");
                for (i, key) in theirs.iter().enumerate() {
                    let (kind, key) = (i % generators.len(), u128::from_le_bytes(*key));
                    let (name, _) = generators[kind];
                    assert!(
                        !ours[kind].contains(&key),
                        "parent and child generated the same {name}"
                    );
                    assert!(name == RANDOM || before[kind] < key, "out of order: {name}");
                }
                println!(
                    "{} kinds of keys: parent and child of a {call} generated no key twice",
                    generators.len()
                );
                Ok(())
            }
        }
    }
}
