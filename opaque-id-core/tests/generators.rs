//! Generators with many threads and with clocks that stop or go backwards, and the parts of their keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::generator::{
    Clock, Generate, Int64Generator, PseudoOrderedGenerator, Random, StructuredKeyGenerator,
    SystemClock, SystemRandom, UlidGenerator, Uuid6Generator, Uuid7Generator, Uuid7Method,
    Uuid8Generator,
};
use opaque_id_core::key::{Key, StructuredKey, TimeKey, Ulid, Uuid, Uuid7};
use opaque_id_core::layout::{Int64Layout, Uuid6, Uuid8Layout};
use opaque_id_core::{KeyError, MasterSecret};
use proptest1::prelude::*;

const METHODS: [Uuid7Method; 5] = [
    Uuid7Method::Fraction,
    Uuid7Method::Micros,
    Uuid7Method::Nanos,
    Uuid7Method::Counter,
    Uuid7Method::MonotonicRandom,
];

/// The time of RFC 9562's vectors, 2022-02-22 19:22:22 UTC.
const NOON: Duration = Duration::from_secs(1_645_557_742);

/// A clock that a test sets in nanoseconds.
#[derive(Debug)]
struct SetClock(AtomicU64);

impl SetClock {
    fn at(since_1970: Duration) -> Arc<Self> {
        let clock = Arc::new(Self(AtomicU64::new(0)));
        clock.set(since_1970);
        clock
    }

    fn set(&self, since_1970: Duration) {
        let nanos = u64::try_from(since_1970.as_nanos()).expect("before 2554");
        self.0.store(nanos, Ordering::Relaxed);
    }

    fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).expect("short");
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Randomness with all bytes equal.
struct Constant(u8);

impl Random for Constant {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

/// The course of a clock while keys are generated.
#[derive(Clone, Copy, Debug)]
enum Course {
    Running,
    Frozen,
    /// Each 2^n-th reading sets the clock back by up to an hour.
    SteppedBack(u32),
}

/// A clock on a course. Each reading advances it.
struct CourseClock {
    course: Course,
    readings: AtomicU64,
}

impl Clock for CourseClock {
    fn now(&self) -> SystemTime {
        let start = UNIX_EPOCH + NOON;
        match self.course {
            Course::Running => SystemClock.now(),
            Course::Frozen => start,
            Course::SteppedBack(n) => {
                let readings = self.readings.fetch_add(1, Ordering::Relaxed);
                // A reading takes 50 ns.
                let back = (readings >> n).wrapping_mul(0x9e37_79b9) % 3_600_000;
                start + Duration::from_nanos(50 * readings) - Duration::from_millis(back)
            }
        }
    }
}

/// Returns the number of keys of all threads. `cargo xtask stress` makes many, and optimized code makes them
/// faster than the clock advances.
fn all_keys() -> usize {
    if is_long() { 16_000_000 } else { 100_000 }
}

fn is_long() -> bool {
    std::env::var_os("OPAQUE_ID_TEST_STRESS").is_some()
}

/// Generates keys in 2 and in 16 threads, on each course. No key appears twice, and each is greater than all
/// keys before its request.
fn stress<K: Copy + Ord + Send + Sync, G: Sync>(
    generator: impl Fn(CourseClock) -> G,
    courses: &[Course],
    generate: impl Fn(&G) -> K + Sync,
) {
    for (threads, course) in [2, 16].into_iter().flat_map(|t| courses.iter().map(move |c| (t, *c)))
    {
        let each = all_keys() / threads;
        let generator = generator(CourseClock { course, readings: AtomicU64::new(0) });
        // A recent key of any thread.
        let earlier: Mutex<Option<K>> = Mutex::new(None);
        let what = format!("{} {course:?}", std::any::type_name::<(G, K)>());
        let all = in_threads(threads, &what, || {
            let mut keys = Vec::with_capacity(each);
            while keys.len() < each {
                let earlier_key = *earlier.lock().expect("no panic");
                let first = generate(&generator);
                assert!(earlier_key.is_none_or(|earlier| earlier < first), "{what}");
                keys.push(first);
                let more = 99.min(each - keys.len());
                keys.extend((0..more).map(|_| generate(&generator)));
                *earlier.lock().expect("no panic") = keys.last().copied();
            }
            keys
        });
        assert_eq!(all.len(), threads * each);
    }
}

/// Generates keys in threads. The keys of a thread are in order, and no key appears twice.
fn in_threads<K: Ord + Send>(
    threads: usize,
    what: &str,
    generate: impl Fn() -> Vec<K> + Sync,
) -> Vec<K> {
    let mut all: Vec<K> = std::thread::scope(|scope| {
        let make = || {
            let keys = generate();
            assert!(keys.is_sorted_by(|a, b| a < b), "{what}");
            keys
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(make)).collect();
        let keys = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
        keys.collect()
    });
    all.sort_unstable();
    assert!(all.is_sorted_by(|a, b| a < b), "a key twice: {what}, {threads} threads");
    all
}

const COURSES: [Course; 3] = [Course::Running, Course::Frozen, Course::SteppedBack(13)];

#[test]
fn uuid7_under_stress() {
    for method in METHODS {
        let courses = match method {
            Uuid7Method::Fraction => &COURSES[..],
            _ => &[Course::SteppedBack(13)],
        };
        let generator = |clock| Uuid7Generator::with(method, clock, SystemRandom);
        stress(generator, courses, Uuid7Generator::generate);
    }
}

#[test]
fn other_keys_under_stress() {
    stress(|clock| Uuid6Generator::with(clock, SystemRandom), &COURSES, Uuid6Generator::generate);
    stress(
        |clock| UlidGenerator::with(clock, SystemRandom),
        &COURSES,
        |generator| generator.generate().expect("2^80 in a millisecond"),
    );
    stress(
        |clock| StructuredKeyGenerator::with(clock, SystemRandom),
        &COURSES,
        |generator| generator.generate().sequence(),
    );
    // The generator is as fast as 256 keys for each 16 ns allow.
    stress(
        |clock| Uuid8Generator::with(Uuid8Layout::NANOS_64, clock, SystemRandom),
        &[Course::Running],
        |generator| std::iter::repeat_with(|| generator.generate()).find_map(Result::ok),
    );
    // One node has room for this many in one second and the next.
    let layout = Int64Layout::with_node_bits(0).expect("0 to 16");
    stress(
        |clock| Int64Generator::with(layout, 0, clock, SystemRandom).expect("node 0"),
        &[Course::Running, Course::Frozen],
        |generator| generator.generate().expect("134 million in a second"),
    );
    // The default generators share one generator per kind.
    stress(drop, &[Course::Running], |()| Uuid7::generate());
    stress(drop, &[Course::Running], |()| Ulid::generate());
    stress(drop, &[Course::Running], |()| StructuredKey::generate().sequence());
}

/// Batches have all sizes, among single keys. A batch reads the clock once.
#[test]
fn batches_under_stress() {
    let batches = if is_long() { 80 } else { 16 };
    for method in METHODS {
        let clock = CourseClock { course: Course::SteppedBack(3), readings: AtomicU64::new(0) };
        let generator = Uuid7Generator::with(method, &clock, SystemRandom);
        let all = in_threads(4, &format!("{method:?}"), || {
            let mut keys = Vec::new();
            for size in [0, 1, 2, 63, 64, 65, 1_000, 50_000].into_iter().cycle().take(batches) {
                let batch = generator.generate_all(size);
                assert_eq!(batch.len(), size);
                keys.extend(batch);
                keys.push(generator.generate());
            }
            keys
        });
        assert!(all.iter().all(|key| Uuid7::check(key.into_repr()).is_ok()));
        assert!(clock.readings.into_inner() > 100, "the clock was set back a dozen times");
    }
}

/// The vector is in RFC 9562, appendix A.6.
#[test]
fn the_vector_of_uuid7() {
    let key: Uuid7 = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F".parse().expect("a UUIDv7");
    assert_eq!(key.time(), UNIX_EPOCH + NOON);
    assert_eq!(key, Uuid7::from_parts(0x017f_22e2_79b0, 0xcc3, 0x18c4_dc0c_0c07_398f));
}

/// The clock's time is in RFC 9562's place, and all other bits are random.
#[test]
fn the_layouts_of_uuid7_bit_by_bit() {
    // The time has 0.5 ms and 244 ns: the fraction is 0x801 of 4,096, 0x200 of 1,024, 0x80100 of 2^20.
    let now = NOON + Duration::from_nanos(500_245);
    for (method, zeros, ones) in [
        (Uuid7Method::Fraction, "7801-8000-000000000000", "7801-bfff-ffffffffffff"),
        (Uuid7Method::Micros, "7800-8000-000000000000", "7803-bfff-ffffffffffff"),
        (Uuid7Method::Nanos, "7801-8000-000000000000", "7801-803f-ffffffffffff"),
        (Uuid7Method::Counter, "7000-8000-000000000000", "77ff-bfff-ffffffffffff"),
        (Uuid7Method::MonotonicRandom, "7000-8000-000000000000", "77ff-bfff-ffffffffffff"),
    ] {
        for (random, text) in [(Constant(0), zeros), (Constant(0xff), ones)] {
            let generator = Uuid7Generator::with(method, SetClock::at(now), random);
            let text = format!("017f22e2-79b0-{text}");
            assert_eq!(generator.generate().to_string(), text, "{method:?}");
        }
    }
}

/// A time is read as written, to the step of each method.
#[test]
fn fractions_are_read_as_they_were_written() {
    let now = NOON + Duration::from_nanos(123_456_789);
    for (method, bits) in
        [(Uuid7Method::Fraction, 12), (Uuid7Method::Micros, 10), (Uuid7Method::Nanos, 20)]
    {
        let key = Uuid7Generator::with(method, SetClock::at(now), SystemRandom).generate();
        let behind = now - key.time_with_fraction(bits).duration_since(UNIX_EPOCH).expect("later");
        assert!(behind.as_nanos() <= 1_000_000 >> bits, "{method:?}: {behind:?}");
        assert_eq!(key.time(), UNIX_EPOCH + NOON + Duration::from_millis(123));
    }
}

/// The number of keys does not matter, even if the clock stops.
#[test]
fn uuid7_runs_ahead_by_ten_milliseconds_and_no_further() {
    for method in METHODS {
        let clock = SetClock::at(NOON);
        let generator = Uuid7Generator::with(method, clock.clone(), SystemRandom);
        let keys: Vec<_> = (0..200_000).map(|_| generator.generate()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{method:?}");
        let last = keys[keys.len() - 1];
        let limit = UNIX_EPOCH + NOON + Duration::from_millis(10);
        assert!(last.time() <= limit, "{method:?}: {:?}", last.time());
        // As soon as the clock has passed the keys, they have its time.
        clock.set(NOON + Duration::from_secs(1));
        let next = generator.generate();
        assert_eq!(next.time(), clock.now(), "{method:?}");
        // A clock that is set back does not affect keys.
        clock.set(NOON - Duration::from_secs(3_600));
        let after: Vec<_> = (0..200_000).map(|_| generator.generate()).collect();
        assert!(next < after[0] && after.is_sorted_by(|a, b| a < b), "{method:?}");
        let ahead = after[after.len() - 1].time().duration_since(next.time()).expect("later");
        assert!(ahead <= Duration::from_millis(10), "{method:?}: {ahead:?}");
    }
}

/// The spec has "01BX5ZZKBKACTAV9WEVGEMMVRZ", then "…VS0", and so on, and the article has five.
#[test]
fn monotonic_ulids_follow_the_spec() {
    for (start, ends) in [
        ("01BX5ZZKBKACTAV9WEVGEMM", &["VRY", "VRZ", "VS0", "VS1"][..]),
        ("01E5WFM7VFPWCNF4DM76ADV", &["80W", "80X", "80Y", "80Z", "810"]),
    ] {
        let generator = ulids_from(format!("{start}{}", ends[0]).parse().expect("a ULID"));
        for end in ends {
            let key = generator.generate().expect("room");
            assert_eq!(key.to_string(), format!("{start}{end}"));
        }
    }
}

/// Returns a generator with this first key on a stopped clock.
fn ulids_from(first: Ulid) -> UlidGenerator<Arc<SetClock>, Numbers> {
    let random = first.into_repr().as_u128() << 48;
    let numbers = [random >> 64, random & u128::from(u64::MAX)];
    let numbers = numbers.map(|number| u64::try_from(number).expect("64 bits"));
    let clock = SetClock::at(Duration::from_millis(first.unix_millis()));
    UlidGenerator::with(clock, Numbers(numbers.into_iter().rev().collect::<Vec<_>>().into()))
}

/// Returns numbers in turn, the last one first.
struct Numbers(Mutex<Vec<u64>>);

impl Random for Numbers {
    fn fill(&self, bytes: &mut [u8]) {
        for bytes in bytes.chunks_mut(8) {
            bytes.copy_from_slice(&self.next_u64().to_le_bytes()[..bytes.len()]);
        }
    }

    fn next_u64(&self) -> u64 {
        self.0.lock().expect("no panic").pop().expect("one more number")
    }
}

/// The spec has "…MMVRZZZZZZ…" and nothing further within the millisecond.
#[test]
fn ulids_overflow_as_the_spec_says() {
    let last_but_one: Ulid = "01BX5ZZKBKZZZZZZZZZZZZZZZY".parse().expect("a ULID");
    let generator = ulids_from(last_but_one);
    assert_eq!(generator.generate().ok(), Some(last_but_one));
    let last = generator.generate().expect("the last");
    assert_eq!(last.to_string(), "01BX5ZZKBKZZZZZZZZZZZZZZZZ");
    for _ in 0..2 {
        assert!(matches!(generator.generate(), Err(KeyError::Exhausted { .. })));
    }
}

#[test]
fn uuid6_has_no_mac_address_and_is_in_order() {
    let clock = SetClock::at(NOON);
    let generator = Uuid6Generator::with(clock.clone(), SystemRandom);
    let keys: Vec<Uuid6> = (0..200_000).map(|_| generator.generate()).collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    assert_eq!(keys[0].time(), clock.now());
    assert!(keys[keys.len() - 1].time() < clock.now() + Duration::from_millis(11));
    for key in keys {
        let uuid = Uuid::from(key);
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (6, uuid::Variant::RFC4122));
        assert_eq!(uuid.as_bytes()[10] & 1, 1, "a unicast address");
    }
    for (random, text) in [
        (Constant(0), "1ec9414c-232a-6b00-8000-010000000000"),
        (Constant(0xff), "1ec9414c-232a-6b00-bfff-ffffffffffff"),
    ] {
        let generator = Uuid6Generator::with(SetClock::at(NOON), random);
        assert_eq!(generator.generate().to_string(), text);
    }
}

#[test]
fn uuid8_counts_from_zero_in_each_step_of_the_clock() {
    for (layout, room, step) in [
        (Uuid8Layout::SECONDS_32, 4_096, Duration::from_secs(1)),
        (Uuid8Layout::MILLIS_48, 4_096, Duration::from_millis(1)),
        (Uuid8Layout::GREGORIAN_60, 256, Duration::from_nanos(100)),
        (Uuid8Layout::NANOS_64, 256, Duration::from_nanos(16)),
    ] {
        let clock = SetClock::at(NOON);
        let generator = Uuid8Generator::with(layout, clock.clone(), SystemRandom);
        let mut keys = Vec::new();
        for _ in 0..3 {
            for sequence in 0..room {
                let key = generator.generate().expect("room");
                assert_eq!(layout.sequence(key), Ok(sequence));
                assert_eq!(layout.time(key), Ok(clock.now()));
                keys.push(key);
            }
            assert!(generator.generate().is_err());
            clock.set(NOON - Duration::from_secs(9));
            assert!(generator.generate().is_err());
            clock.set(NOON + step * u32::try_from(keys.len()).expect("few") / u32::from(room));
        }
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
}

#[test]
fn int64_has_its_parts_and_its_limits() {
    let layout = Int64Layout::with_node_bits(16).expect("0 to 16");
    assert!(Int64Generator::new(layout, 65_536).is_err());
    let clock = SetClock::at(NOON);
    let generator = Int64Generator::with(layout, 65_535, clock.clone(), SystemRandom);
    let generator = generator.expect("a node");
    let mut ids = Vec::new();
    while let Ok(id) = generator.generate() {
        ids.push(id);
    }
    // The ids have this second, from a random start in the lower half, and all of the next.
    assert!((2_048 + 4_096..=8_192).contains(&ids.len()), "{}", ids.len());
    assert!(ids.is_sorted_by(|a, b| a < b) && ids[0] > 0);
    assert!(ids.iter().all(|id| layout.node(*id) == 65_535));
    assert_eq!(layout.time(ids[0]), clock.now());
    assert_eq!(layout.time(ids[ids.len() - 1]), clock.now() + Duration::from_secs(1));
    let now = clock.now();
    let bounds = layout.bounds(now..now + Duration::from_secs(1));
    assert!(ids.iter().all(|id| bounds.contains(id) == (layout.time(*id) == now)));
    clock.advance(Duration::from_secs(2));
    let next = generator.generate().expect("a new second");
    assert!(next > ids[ids.len() - 1] && layout.time(next) == clock.now());
    // The times are 2106-02-07 and later.
    clock.set(Duration::from_secs(u64::from(u32::MAX)));
    assert!(generator.generate().is_ok_and(|id| (0..1 << 60).contains(&id)));
}

#[test]
fn structured_keys_are_time_and_nonce() {
    let clock = SetClock::at(NOON + Duration::from_millis(500));
    for (random, nonce) in [(Constant(0), 0), (Constant(0xff), (1 << 60) - 1)] {
        let key = StructuredKeyGenerator::with(clock.clone(), random).generate();
        assert_eq!(key.sequence(), 1_645_557_742 << 28 | 1 << 27);
        assert_eq!(key.into_repr().as_u64_pair().1, nonce);
    }
}

#[test]
fn pseudo_ordered_keys_share_a_prefix_during_a_window() {
    let secret = MasterSecret::from([7; 32]);
    let hour = Duration::from_secs(3_600);
    let clock = SetClock::at(NOON);
    let prefix = |key: Uuid| key.as_u128() >> (128 - 16);
    let generator = |secret: &MasterSecret| {
        PseudoOrderedGenerator::with(secret, hour, 16, clock.clone(), SystemRandom)
            .expect("good settings")
    };
    let (ours, theirs) = (generator(&secret), generator(&MasterSecret::from([8; 32])));
    let (mut prefixes, mut strangers) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let keys: Vec<Uuid> = (0..20).map(|_| ours.generate()).collect();
        assert!(keys.iter().all(|key| prefix(*key) == prefix(keys[0])));
        // This generator belongs to another process with the same secret.
        assert_eq!(prefix(generator(&secret).generate()), prefix(keys[0]));
        assert!(keys.iter().all(|key| key.get_version_num() == 4));
        assert!(keys.iter().all(|key| key.get_variant() == uuid::Variant::RFC4122));
        prefixes.push(prefix(keys[0]));
        strangers.push(prefix(theirs.generate()));
        clock.advance(hour);
    }
    // Another secret has other prefixes.
    let same = prefixes.iter().zip(&strangers).filter(|(a, b)| a == b);
    assert!(same.count() < 5);
    // Windows are spread over the range, so neither time nor order shows.
    let ascending = prefixes.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((200..300).contains(&ascending), "{ascending}");
    prefixes.sort_unstable();
    prefixes.dedup();
    assert!(prefixes.len() > 480, "{}", prefixes.len());

    assert!(PseudoOrderedGenerator::new(&secret, hour, 0).is_err());
    assert!(PseudoOrderedGenerator::new(&secret, hour, 49).is_err());
    assert!(PseudoOrderedGenerator::new(&secret, Duration::ZERO, 16).is_err());
}

/// The prefixes come from a second program: AES-128 of the window's number under HKDF-SHA-256 (salt
/// `opaque-id.v1`, label `window`).
#[test]
fn pseudo_ordered_prefixes_are_the_same_everywhere() {
    let clock = SetClock::at(Duration::from_secs(1_645_557_742));
    let secret = MasterSecret::from([7; 32]);
    let hour = Duration::from_secs(3_600);
    let generator = PseudoOrderedGenerator::with(&secret, hour, 48, clock, Constant(0));
    let key = generator.expect("good settings").generate();
    assert_eq!(key.to_string(), "20ee9144-e5cc-4000-8000-000000000000");
}

proptest! {
    /// Keys grow on any clock.
    #[test]
    fn order_holds_on_any_clock(times in prop::collection::vec(any::<u32>(), 1..200), method in 0..5_usize) {
        let clock = SetClock::at(NOON);
        let sevens = Uuid7Generator::with(METHODS[method], clock.clone(), SystemRandom);
        let sixes = Uuid6Generator::with(clock.clone(), SystemRandom);
        let ulids = UlidGenerator::with(clock.clone(), SystemRandom);
        let mut last = None;
        for time in times {
            clock.set(NOON + Duration::from_nanos(time.into()));
            let keys = (sevens.generate(), sixes.generate(), ulids.generate().expect("room"));
            if let Some((seven, six, ulid)) = last {
                prop_assert!(seven < keys.0 && six < keys.1 && ulid < keys.2);
            }
            last = Some(keys);
        }
    }
}
