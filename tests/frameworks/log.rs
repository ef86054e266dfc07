//! The log of a test program, with the spans of its events.

use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The logged events.
#[derive(Debug, Default)]
pub struct Log(Mutex<Vec<String>>);

/// Starts to record this program's log.
pub fn start() -> &'static Log {
    static LOG: OnceLock<&'static Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log: &'static Log = Box::leak(Box::default());
        let recorded = tracing_subscriber::registry().with(Recorder(log));
        tracing::subscriber::set_global_default(recorded).expect("the only one");
        log
    })
}

impl Log {
    /// Returns the events with this part: `target LEVEL field=value span: field=value`.
    pub fn events(&self, part: &str) -> Vec<String> {
        let events = self.0.lock().expect("no panics");
        events.iter().filter(|event| event.contains(part)).cloned().collect()
    }
}

struct Recorder(&'static Log);

#[derive(Clone, Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(format!(" {}:", span.metadata().name()));
        span.record(&mut fields);
        context.span(id).expect("it is new").extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields(format!("{} {}", metadata.target(), metadata.level()));
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            fields.0 += &span.extensions().get::<Fields>().cloned().unwrap_or_default().0;
        }
        self.0.0.lock().expect("no panics").push(fields.0);
    }
}
