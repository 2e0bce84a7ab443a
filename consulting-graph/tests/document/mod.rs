//! Tests the server against its OpenAPI document.

pub(crate) mod rules;
#[path = "../../../graph-server/tests/it/schemathesis.rs"]
mod schemathesis;

use serde_json::json;
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::Server;

#[tokio::test(flavor = "multi_thread")]
async fn the_server_conforms_to_its_openapi_document() {
    let Some(program) = schemathesis::find() else { return };
    let folder = TempDir::new().unwrap();
    let options = "--sandbox in-process --isolation off --rate 1000000";
    let server = Server::start(folder.path(), options, None).await;
    let complete = server.analyze(json!({ "ticker": "NVDA", "rounds": 1 })).await;
    let waiting = server.analyze(json!({ "ticker": "NVDA", "review": true })).await;
    assert_eq!(server.follow(&complete).await.1, "complete");
    assert_eq!(server.follow(&waiting).await.1, "waiting");
    // Uses existing runs for most requests, because otherwise almost every response would be "not found".
    let configuration = format!(
        r#"
[dictionaries]
runs.values = ["{complete}", "{complete}", "{waiting}"]
files.values = ["report.html", "report.json", "m1.md", "scores.csv"]
places.values = ["layer_0", "m1", "m2:r1"]
# Most started runs are short, because their event streams are read to the end.
rounds.values = [1]

[parameters]
"path.id" = {{ dictionary = "runs", probability = 0.7 }}
"path.name" = {{ dictionary = "files", probability = 0.7 }}
"query.a" = {{ dictionary = "runs", probability = 0.9 }}
"query.b" = {{ dictionary = "runs", probability = 0.9 }}
"query.before" = {{ dictionary = "runs", probability = 0.5 }}
"body.at" = {{ dictionary = "places", probability = 0.5 }}
"body.rounds" = {{ dictionary = "rounds", probability = 0.9 }}

# Whether a fork point or a move exists depends on the run.
[[operations]]
include-name = ["POST /api/runs/{{id}}/fork", "POST /api/runs/{{id}}/resume"]
checks.positive_data_acceptance.enabled = false

# The other requests use the runs.
[[operations]]
include-name = "DELETE /api/runs/{{id}}"
enabled = false
"#
    );
    block_in_place(|| schemathesis::run(&program, &server.address, &configuration, &[]));
}
