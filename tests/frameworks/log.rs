//! The log of a test program, with the spans of its events.

use std::io;
use std::sync::{Mutex, OnceLock};

/// The logged events, each on a line.
#[derive(Debug, Default)]
pub struct Log(Mutex<Vec<u8>>);

/// Starts to record this program's log.
pub fn start() -> &'static Log {
    static LOG: OnceLock<&'static Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log: &'static Log = Box::leak(Box::default());
        let format = tracing_subscriber::fmt().without_time().with_ansi(false);
        format.with_writer(move || log).init();
        log
    })
}

impl Log {
    /// Returns the events with this part: `LEVEL span{field=value}: target: message field=value`.
    pub fn events(&self, part: &str) -> Vec<String> {
        let events = self.0.lock().expect("no panics");
        let events = str::from_utf8(&events).expect("text").lines();
        events.filter(|event| event.contains(part)).map(|event| event.trim().to_owned()).collect()
    }
}

impl io::Write for &Log {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panics").write(event)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
