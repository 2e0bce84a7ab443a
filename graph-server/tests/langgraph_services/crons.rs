//! Crons: runs on a schedule.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{auth, server::Server};

#[tokio::test]
async fn crons_are_created_changed_found_and_deleted() {
    let server = Server::start().await;
    let body = json!({
        "assistant_id": "tiny",
        "schedule": "30 4 * * *",
        "timezone": "Asia/Tokyo",
        "input": { "value": "x" },
        "metadata": { "team": "a" },
    });
    let (status, cron) = server.post("/runs/crons", &body).await;
    assert_eq!(status, 200, "{cron}");
    // Tokyo has no daylight saving time: 4:30 is 19:30 UTC on the day before.
    assert!(cron["next_run_date"].as_str().unwrap().ends_with("T19:30:00+00:00"), "{cron}");
    assert_eq!(cron["enabled"], true);
    assert_eq!(cron["payload"]["input"], json!({ "value": "x" }));
    let thread = server.new_thread().await;
    let on_thread = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *" });
    let (status, other) = server.post(&format!("/threads/{thread}/runs/crons"), &on_thread).await;
    assert_eq!((status, &other["thread_id"]), (200, &json!(thread)));

    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    let change = json!({ "schedule": "45 4 * * *", "enabled": false });
    let (_, changed) = server.send(Method::PATCH, &path, &change).await;
    assert!(changed["next_run_date"].as_str().unwrap().ends_with("T19:45:00+00:00"));
    assert_eq!(changed["enabled"], false);
    assert_eq!(changed["payload"]["input"], json!({ "value": "x" }));
    assert_eq!(server.get(&path).await.1, changed);

    let find = json!({ "metadata": { "team": "a" } });
    let (_, found) = server.post("/runs/crons/search", &find).await;
    assert_eq!(found, json!([changed]));
    let on_thread = json!({ "thread_id": thread });
    assert_eq!(server.post("/runs/crons/count", &on_thread).await.1, 1);
    assert_eq!(server.post("/runs/crons/count", &json!({})).await.1, 2);

    assert_eq!(server.send(Method::DELETE, &path, &json!({})).await.0, 204);
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn invalid_crons_are_rejected() {
    let server = Server::start().await;
    let rejected = [
        json!({ "schedule": "* * * * *" }),
        json!({ "assistant_id": "tiny" }),
        json!({ "assistant_id": "tiny", "schedule": "* * * *" }),
        json!({ "assistant_id": "tiny", "schedule": "* * * * * *" }),
        json!({ "assistant_id": "tiny", "schedule": "61 * * * *" }),
        json!({ "assistant_id": "tiny", "schedule": "* * * * *", "timezone": "Mars/Crater" }),
        json!({ "assistant_id": "tiny", "schedule": "* * * * *", "end_time": "tomorrow" }),
        json!({ "assistant_id": "tiny", "schedule": "* * * * *", "surprise": 1 }),
        json!({ "assistant_id": "tiny", "schedule": "* * * * *", "webhook": "ftp://host/" }),
    ];
    for body in rejected {
        let (status, answer) = server.post("/runs/crons", &body).await;
        assert_eq!(status, 422, "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_cron_that_has_ended_has_no_next_run() {
    let server = Server::start().await;
    let body = json!({
        "assistant_id": "tiny",
        "schedule": "* * * * *",
        "end_time": "2020-01-01T00:00:00",
    });
    let (status, cron) = server.post("/runs/crons", &body).await;
    assert_eq!((status, &cron["next_run_date"]), (200, &json!(null)), "{cron}");
}

#[tokio::test]
async fn a_change_merges_metadata_and_can_remove_the_end() {
    let server = Server::start().await;
    let body = json!({
        "assistant_id": "tiny",
        "schedule": "0 0 1 1 *",
        "end_time": "2020-01-01T00:00:00",
        "metadata": { "team": "a" },
    });
    let (_, cron) = server.post("/runs/crons", &body).await;
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    let more = json!({ "metadata": { "kind": "b" } });
    let (_, changed) = server.send(Method::PATCH, &path, &more).await;
    assert_eq!(changed["metadata"], json!({ "team": "a", "kind": "b" }));
    assert_eq!(changed["end_time"], cron["end_time"], "a missing field changes nothing");
    let (_, endless) = server.send(Method::PATCH, &path, &json!({ "end_time": null })).await;
    assert_eq!(endless["end_time"], json!(null));
    assert!(endless["next_run_date"].is_string(), "{endless}");
    let invalid = json!({ "metadata": "a" });
    assert_eq!(server.send(Method::PATCH, &path, &invalid).await.0, 422);
}

/// Creates a cron and returns its path.
async fn create_cron(server: &Server) -> String {
    let body = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *" });
    let (status, cron) = server.post("/runs/crons", &body).await;
    assert_eq!(status, 200, "{cron}");
    format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_of_a_cron_are_all_stored() {
    let server = Server::start().await;
    for _ in 0..20 {
        let path = create_cron(&server).await;
        let changes: Vec<_> =
            (0..5).map(|it| json!({ "metadata": { format!("key-{it}"): it } })).collect();
        let changed = changes.iter().map(|it| server.send(Method::PATCH, &path, it));
        for (status, changed) in join_all(changed).await {
            assert_eq!(status, 200, "{changed}");
        }
        let (_, cron) = server.get(&path).await;
        let expected = json!({ "key-0": 0, "key-1": 1, "key-2": 2, "key-3": 3, "key-4": 4 });
        assert_eq!(cron["metadata"], expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_does_not_restore_a_deleted_cron() {
    let server = Server::start().await;
    for _ in 0..20 {
        let path = create_cron(&server).await;
        let (change, nothing) = (json!({ "enabled": false }), json!({}));
        let changed = (0..4).map(|_| server.send(Method::PATCH, &path, &change));
        let deleted = server.send(Method::DELETE, &path, &nothing);
        let (deleted, changed) = tokio::join!(deleted, join_all(changed));
        assert_eq!(deleted.0, 204);
        for (status, changed) in changed {
            assert!([200, 404].contains(&status), "{status}: {changed}");
        }
        assert_eq!(server.get(&path).await.0, 404);
    }
}

/// Changes the stored crons, so that their next runs are due.
fn make_crons_due(server: &Server) {
    let database = rusqlite::Connection::open(server.files().join("api.db")).unwrap();
    database.busy_timeout(Duration::from_secs(120)).unwrap();
    let sql =
        "UPDATE documents SET data = json_set(data, '$.next_run_date', ?1) WHERE kind = 'cron'";
    database.execute(sql, ["2020-01-01T00:00:00+00:00"]).unwrap();
}

#[tokio::test]
async fn a_due_cron_starts_a_run_and_is_scheduled_again() {
    let server = Server::start().await;
    let thread = server.new_thread().await;
    let body =
        json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "input": { "value": "x" } });
    let (_, cron) = server.post(&format!("/threads/{thread}/runs/crons"), &body).await;
    make_crons_due(&server);
    // A new cron wakes the timer.
    let other = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *" });
    server.post("/runs/crons", &other).await;
    let runs = loop {
        let (_, runs) = server.get(&format!("/threads/{thread}/runs")).await;
        if runs.as_array().is_some_and(|it| !it.is_empty()) {
            break runs;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(runs[0]["metadata"]["cron_id"], cron["cron_id"]);
    let path = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    let next = loop {
        let (_, stored) = server.get(&path).await;
        let next = stored["next_run_date"].as_str().unwrap().to_owned();
        if !next.starts_with("2020") {
            break next;
        }
    };
    assert_eq!(next, cron["next_run_date"].as_str().unwrap());
}

#[tokio::test]
async fn a_cron_that_an_admin_creates_belongs_to_the_owner_of_its_thread() {
    let server = auth::server().await;
    let (ada, admin) = (auth::user(&server, "ada"), auth::user(&server, "admin"));
    let runs = format!("{}/runs", ada.new_thread().await);
    let cron = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "input": {} });
    let (_, created) = admin.post(&format!("{runs}/crons"), cron.clone()).await;
    let path = format!("/runs/crons/{}", created["cron_id"].as_str().unwrap());
    assert_eq!(ada.status(&path).await, 200);
    make_crons_due(&server);
    // A new cron wakes the timer.
    ada.post("/runs/crons", cron).await;
    while ada.send(Method::GET, &runs, Value::Null).await.1 == json!([]) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_on_the_thread_of_a_cron_does_not_belong_to_the_cron() {
    let server = Server::start().await;
    // A cron that creates a thread copies its metadata to the thread.
    let thread = json!({ "metadata": { "cron_id": "c", "team": "a" } });
    let (_, thread) = server.post("/threads", &thread).await;
    let runs = format!("/threads/{}/runs", thread["thread_id"].as_str().unwrap());
    let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let (_, run) = server.post(&runs, &run).await;
    assert_eq!(run["metadata"]["team"], "a");
    assert_eq!(run["metadata"]["cron_id"], json!(null));
}
