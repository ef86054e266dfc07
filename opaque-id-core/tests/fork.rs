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

    use opaque_id_core::generator::Generate;
    use opaque_id_core::generator::{
        Clock, Int64Generator, Random, SystemRandom, UlidGenerator, Uuid7Generator, Uuid7Method,
        Uuid8Generator,
    };
    use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid7};
    use opaque_id_core::layout::{Int64Layout, Uuid8Layout};

    /// A clock that gives parent and child the same time.
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_secs(1_645_557_742)
        }
    }

    struct Generators {
        sevens: Uuid7Generator<Stopped>,
        method_2: Uuid7Generator<Stopped>,
        eights: Uuid8Generator<Stopped>,
        ulids: UlidGenerator<Stopped>,
        integers: Int64Generator<Stopped>,
    }

    const NAMES: [&str; 9] = [
        "random number",
        "Uuid7",
        "Ulid",
        "StructuredKey",
        "Uuid7 of a stopped clock",
        "Uuid7 of method 2",
        "UUIDv8",
        "Ulid of a stopped clock",
        "64-bit id",
    ];

    impl Generators {
        fn new() -> Result<Self, Box<dyn Error>> {
            let random = SystemRandom;
            let layout = Int64Layout::with_node_bits(8)?;
            Ok(Self {
                sevens: Uuid7Generator::with(Uuid7Method::Fraction, Stopped, random),
                method_2: Uuid7Generator::with(Uuid7Method::MonotonicRandom, Stopped, random),
                eights: Uuid8Generator::with(Uuid8Layout::MILLIS_48, Stopped, random),
                ulids: UlidGenerator::with(Stopped, random),
                integers: Int64Generator::with(layout, 17, Stopped, random)?,
            })
        }

        fn keys(&self) -> Result<[u128; NAMES.len()], Box<dyn Error>> {
            Ok([
                SystemRandom.next_u64().into(),
                Uuid7::generate().into_repr().as_u128(),
                Ulid::generate().into_repr().as_u128(),
                StructuredKey::generate().into_repr().as_u128(),
                self.sevens.generate().into_repr().as_u128(),
                self.method_2.generate().into_repr().as_u128(),
                self.eights.generate()?.as_u128(),
                self.ulids.generate()?.into_repr().as_u128(),
                self.integers.generate()?.cast_unsigned().into(),
            ])
        }
    }

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
        let generators = Generators::new()?;
        // The keys of the stopped clock queue.
        drop(generators.sevens.generate_all(100_000));
        let before = generators.keys()?;

        let (mut reader, mut writer) = std::io::pipe()?;
        match split()? {
            fork::Fork::Child => {
                for _ in 0..EACH {
                    for key in generators.keys()? {
                        writer.write_all(&key.to_le_bytes())?;
                    }
                }
                std::process::exit(0);
            }
            fork::Fork::Parent(child) => {
                drop(writer);
                let mut ours: [HashSet<u128>; NAMES.len()] = Default::default();
                for _ in 0..EACH {
                    for (set, key) in ours.iter_mut().zip(generators.keys()?) {
                        set.insert(key);
                    }
                }
                let mut theirs = Vec::new();
                reader.read_to_end(&mut theirs)?;
                fork::waitpid(child)?;
                let theirs = theirs.as_chunks::<16>().0;
                assert_eq!(theirs.len(), EACH * NAMES.len(), "the child has failed");
                for (i, key) in theirs.iter().enumerate() {
                    let (kind, key) = (i % NAMES.len(), u128::from_le_bytes(*key));
                    assert!(
                        !ours[kind].contains(&key),
                        "parent and child generated the same {}",
                        NAMES[kind]
                    );
                    let is_ordered = NAMES[kind] != NAMES[0];
                    assert!(!is_ordered || before[kind] < key, "out of order: {}", NAMES[kind]);
                }
                println!(
                    "{} kinds of keys: parent and child of a {call} generated no key twice",
                    NAMES.len()
                );
                Ok(())
            }
        }
    }
}
