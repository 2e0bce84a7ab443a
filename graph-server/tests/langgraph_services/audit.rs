//! The audit log: changes and refused requests, with their client and without credentials.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::auth::{server, user};

/// The lines that were logged with the target `audit`.
#[derive(Clone, Default)]
struct AuditLog(Arc<Mutex<Vec<String>>>);

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
        self.0.lock().unwrap().push(line.0);
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

#[tokio::test]
async fn changes_and_refused_requests_are_logged_without_credentials() {
    let log = AuditLog::default();
    // The server runs on the thread of this test.
    let _active = tracing::subscriber::set_default(log.clone());
    let server = server().await;
    let ada = user(&server, "ada");
    assert_eq!(ada.post("/threads", json!({})).await.0, 200);
    assert_eq!(ada.status("/assistants/tiny").await, 200, "reading is not logged");
    assert_eq!(user(&server, "reader").post("/threads", json!({})).await.0, 403);
    assert_eq!(user(&server, "nobody").post("/threads", json!({})).await.0, 401);
    let lines = log.0.lock().unwrap().clone();
    let expected: [&[&str]; 3] = [
        &["owner=\"ada@example.org\";", "status=200;"],
        &["owner=\"bob\";", "status=403;"],
        &["request refused"],
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, parts) in lines.iter().zip(expected) {
        for part in parts.iter().chain(&["method=POST;", "path=\"/threads\";"]) {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
        assert!(!line.contains("key of"), "{line}");
    }
}
