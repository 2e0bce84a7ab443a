//! Connections to a PostgreSQL server with TLS.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{path::Path, time::Duration};

use graph_core::checkpoint::Checkpointer;
use graph_store::{
    Postgres, PostgresSaver,
    postgres::connections::{Connections, Notification},
};
use graph_tests::{postgres, postgres_tls::TlsServer};
use tokio::{sync::mpsc, time::timeout};

fn with_root(mode: &str, root: &Path) -> String {
    format!("sslmode={mode}&sslrootcert={}", root.display())
}

/// Returns whether the connections to a database are encrypted.
async fn is_encrypted(url: &str) -> bool {
    let connections = Connections::open(url, "test", 1).await.unwrap();
    let select = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    connections.query_opt(select, &[]).await.unwrap().unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modes_select_the_encryption() {
    let Some(tls) = TlsServer::start() else { return };
    for (options, encrypted) in [
        (String::new(), true),
        ("sslmode=disable".to_owned(), false),
        ("sslmode=prefer".to_owned(), true),
        ("sslmode=require".to_owned(), true),
        (with_root("require", &tls.root), true),
        (with_root("verify-ca", &tls.root), true),
        (tls.verify_full(), true),
    ] {
        assert_eq!(is_encrypted(&tls.fresh_database(&options)).await, encrypted, "{options}");
    }
    // The certificate is not valid for the address, which only `verify-full` checks.
    let by_address = |url: String| url.replace("@localhost", "@127.0.0.1");
    let options = with_root("verify-ca", &tls.root);
    assert!(is_encrypted(&by_address(tls.fresh_database(&options))).await);

    for (url, says) in [
        (
            tls.fresh_database(&with_root("verify-full", &tls.other_root)),
            "UnknownIssuer; sslrootcert must name the certificate of the authority that issued",
        ),
        (tls.fresh_database(&with_root("verify-ca", &tls.other_root)), "UnknownIssuer"),
        (tls.fresh_database("sslmode=verify-full"), "UnknownIssuer"),
        (
            by_address(tls.fresh_database(&tls.verify_full())),
            "; use a host name from the server's certificate in the URL, or write sslmode=verify-ca",
        ),
    ] {
        let error = Postgres::connect(&url).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_self_signed_certificate_is_accepted_if_it_is_the_root_certificate() {
    let Some(tls) = TlsServer::start() else { return };
    let certificate = tls.use_self_signed_certificate();
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = tls.fresh_database(&with_root(mode, &certificate));
        assert!(is_encrypted(&url).await, "{mode}");
    }
    let url = tls.fresh_database(&with_root("verify-full", &certificate));
    let error = Postgres::connect(&url.replace("@localhost", "@127.0.0.1")).await.unwrap_err();
    assert!(error.to_string().contains("use a host name from the server's certificate"), "{error}");
    let url = tls.fresh_database(&with_root("verify-ca", &tls.root));
    let error = Postgres::connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("CaUsedAsEndEntity"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unchecked_certificates_may_have_any_version() {
    let Some(tls) = TlsServer::start() else { return };
    tls.use_version_1_certificate();
    for options in ["sslmode=prefer", "sslmode=require"] {
        assert!(is_encrypted(&tls.fresh_database(options)).await, "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_notifications_use_tls() {
    let Some(tls) = TlsServer::start() else { return };
    let url = tls.fresh_database(&tls.verify_full());
    let saver = PostgresSaver::connect(&url).await.unwrap();
    let _lease = saver.lease("t").await.unwrap();
    let connections = Connections::open(&url, "test", 1).await.unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let _listener = connections.listen("news", move |notification| {
        let _ = sender.send(match notification {
            Notification::Payload(payload) => payload.to_owned(),
            Notification::Connected => "connected".to_owned(),
        });
    });
    let mut next = async || timeout(Duration::from_secs(180), received.recv()).await.unwrap();
    assert_eq!(next().await.as_deref(), Some("connected"));
    connections.query("SELECT pg_notify('news', 'hello')", &[]).await.unwrap();
    assert_eq!(next().await.as_deref(), Some("hello"));
    let unencrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE datname = current_database() AND NOT ssl AND application_name <> 'psql'";
    assert_eq!(tls.server.sql(&url, unencrypted), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_refused_if_tls_is_required() {
    let Some(url) = postgres::fresh_database() else { return };
    let error = Postgres::connect(&format!("{url}?sslmode=require")).await.unwrap_err();
    let says =
        "server does not support TLS; set `ssl = on` on the server, or write sslmode=disable";
    assert!(error.to_string().contains(says), "{error}");
    assert!(!is_encrypted(&format!("{url}?sslmode=prefer")).await);
}
