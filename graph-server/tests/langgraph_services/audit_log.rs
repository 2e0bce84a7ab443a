//! Records the audit log of all servers of this program.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, Once},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to record the audit log of all servers. Every server calls this before it logs anything, because `tracing`
/// caches, when a log statement is first reached, whether the statement is enabled.
pub(crate) fn record() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| tracing::subscriber::set_global_default(AuditLog).unwrap());
}

struct AuditLog;

impl Subscriber for AuditLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "audit"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?};", field.name()).unwrap();
    }
}

/// Checks that the log lines that mention `thread` contain the `expected` texts, line by line, and no credentials.
pub(crate) fn assert_logged(thread: &str, expected: &[&[&str]]) {
    let lines = LINES.lock().unwrap().clone();
    let lines: Vec<_> = lines.iter().filter(|it| it.contains(thread)).collect();
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, parts) in lines.iter().zip(expected) {
        for part in *parts {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
        assert!(!line.contains("key of"), "{line}");
    }
}
