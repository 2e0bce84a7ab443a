//! Failures of the server and of the database, and the settings of a connection.

use graph_core::checkpoint::{CheckpointError, Checkpointer, Keep, Lookup};
use graph_store::{
    Keys, OpenError, Postgres, PostgresSaver,
    postgres::deadpool_postgres::{Manager, Pool, tokio_postgres::NoTls},
};
use graph_tests::postgres::{self, Server};
use serde_json::json;

use crate::support::{done, extend, head, lease_when_free, on_every_link, put, saver, step};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saver_survives_a_server_restart() {
    if postgres::shared().is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let lease = saver.lease("t").await.unwrap();
    let mut head_id = put(&saver, step("t", None)).await.unwrap();
    for _ in 0..2 {
        server.crash_and_restart();
        head_id = put(&saver, step("t", Some(head_id))).await.unwrap();
        assert_eq!(head(&saver, "t").await.key.id, head_id);
    }
    drop(lease);
    let _lease = lease_when_free(&saver, "t").await;
    drop(server);
    let error = put(&saver, step("t", Some(head_id))).await.unwrap_err().to_string();
    assert!(error.contains("check that the server is running"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_during_a_write_is_retried() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    let first = put(&saver, step("t", None)).await.unwrap();
    // The sequence counts all attempts, because its value is not rolled back with a failed transaction.
    server.sql(&url, "CREATE SEQUENCE breaks");
    on_every_link(
        server,
        &url,
        "IF nextval('breaks') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF",
    );
    let second = put(&saver, step("t", Some(first))).await.unwrap();
    assert_eq!(head(&saver, "t").await.key.id, second);
    assert_eq!(server.sql(&url, "SELECT last_value FROM breaks"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_schema_is_rejected_unchanged() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    server.sql(&url, "CREATE SCHEMA shop; CREATE TABLE shop.orders (n int)");
    let refused = Postgres::settings().schema("shop").connect(&url).await;
    assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
    assert_eq!(server.sql(&url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'shop'"), "1");
    // An empty schema is accepted, and the tables are created in it.
    server.sql(&url, "CREATE SCHEMA empty");
    let database = Postgres::settings().schema("empty").connect(&url).await.unwrap();
    put(&PostgresSaver::new(&database), step("t", None)).await.unwrap();
    assert!(saver(&url).await.threads().await.unwrap().is_empty());
    for name in ["", "a-b", "a\"b", "1a", "ä", &"x".repeat(64)] {
        let refused = Postgres::settings().schema(name).connect(&url).await.unwrap_err();
        assert!(refused.to_string().contains("is not a valid schema name"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_tables_are_rejected_and_existing_ones_need_no_create_privilege() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let plain = url.replace("postgres@", "plain@");
    server.sql(&url, "DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN");
    let refused = Postgres::connect(&plain).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied") && refused.contains("grant"), "{refused}");
    let first = put(&saver(&url).await, step("t", None)).await.unwrap();
    server.sql(
        &url,
        "GRANT USAGE ON SCHEMA graph_store TO plain;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA graph_store TO plain;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA graph_store TO plain",
    );
    let user = saver(&plain).await;
    let _lease = user.lease("t").await.unwrap();
    put(&user, step("t", Some(first))).await.unwrap();
    user.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();

    server.sql(&url, "UPDATE graph_store.graph_store_version SET version = 1000");
    match Postgres::connect(&url).await {
        Err(OpenError::TooNew { found: 1_000, database, .. }) => {
            assert!(database.contains("graph_store"), "{database}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_suggest_a_fix_and_hide_the_password() {
    let Some(server) = postgres::shared() else { return };
    let address = server.url().split('@').nth(1).unwrap().split('/').next().unwrap();
    let url = |database: &str| format!("postgresql://postgres:s3cret@{address}/{database}");
    for (url, says) in [
        (url("no_such_database"), "does not exist; create it first with CREATE DATABASE"),
        (
            "postgresql://postgres:s3cret@127.0.0.1:1/x".to_owned(),
            "check that the server is running",
        ),
        ("postgresql://postgres:s3cret@[".to_owned(), "the URL must have the form postgresql://"),
        (url("postgres?sslmode=require"), "server does not support TLS; set `ssl = on`"),
        (url("postgres?sslmode=allow"), "write sslmode=disable, prefer, require"),
    ] {
        let error = Postgres::connect(&url).await.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
    let saver = saver(&url("postgres")).await;
    let debug = format!("{saver:?} {:?}", saver.database());
    assert!(debug.contains(address) && !debug.contains("s3cret"), "{debug}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saver_uses_the_pool_of_its_caller() {
    let Some(url) = postgres::fresh_database() else { return };
    let pool =
        Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let saver = PostgresSaver::new(&Postgres::from_pool(pool).await.unwrap());
    let _lease = saver.lease("t").await.unwrap();
    let first = put(&saver, step("t", None)).await.unwrap();
    put(&saver, step("t", Some(first))).await.unwrap();
    assert_eq!(head(&saver, "t").await.values["log"], json!(["x", "x"]));
}

/// JIT compilation must be off, because JIT-compiling the statement that reads a thread takes far longer than
/// executing it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jit_is_disabled_for_our_connections() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    // Replaces a function that `copy_thread` calls with one that records the JIT setting of the connection.
    let record_jit = "CREATE TABLE seen (jit text);
                CREATE OR REPLACE FUNCTION graph_store.need_read_committed() RETURNS void
                LANGUAGE sql AS $$INSERT INTO public.seen VALUES (current_setting('jit'))$$";
    server.sql(&url, record_jit);
    let copied = saver.copy_thread("a", "b").await;
    assert!(matches!(copied, Err(CheckpointError::UnknownThread { .. })), "{copied:?}");
    assert_eq!(server.sql(&url, "SELECT jit FROM seen").trim(), "off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_values_are_unreadable_in_the_database() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let keys = Keys::parse(&"ab".repeat(32)).unwrap();
    let database = Postgres::settings().encrypt(keys).connect(&url).await.unwrap();
    let sealed = PostgresSaver::new(&database);
    let mut first = step("t", None);
    first.changes = vec![extend(json!("whisper"))];
    first.header.metadata.insert("note".to_owned(), json!("whisper"));
    let place = first.key.clone();
    put(&sealed, first).await.unwrap();
    sealed.record(&place, vec![done("whisper")]).await.unwrap();
    assert_eq!(head(&sealed, "t").await.values["log"], json!(["whisper"]));
    for table in ["checkpoint", "link", "record"] {
        let count = format!(
            "SELECT count(*), count(*) FILTER (WHERE position('whisper'::bytea IN body) > 0)
             FROM graph_store.{table}"
        );
        assert_eq!(server.sql(&url, &count), "1|0", "{table}");
    }
    let error = saver(&url).await.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("is encrypted"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_reported_with_the_field() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = saver(&url).await;
    put(&saver, step("t", None)).await.unwrap();
    server.sql(&url, "UPDATE graph_store.link SET body = set_byte(body, 7, 99)");
    let error = saver.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("field `log`") && error.contains("checksum"), "{error}");
    server.sql(&url, "DELETE FROM graph_store.link");
    let error = saver.get(&Lookup::head("t", "")).await.unwrap_err().to_string();
    assert!(error.contains("of its chain is missing"), "{error}");
}

/// Isolation levels other than READ COMMITTED must be rejected, because the saver's checks would then use a snapshot
/// that is older than the lock.
#[tokio::test]
async fn other_isolation_levels_are_rejected() {
    let Some(server) = postgres::shared() else { return };
    let url = server.fresh_database();
    let saver = PostgresSaver::connect(&url).await.unwrap();
    assert!(saver.threads().await.unwrap().is_empty());
    let name = url.rsplit('/').next().unwrap();
    let set =
        format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'");
    server.sql(server.url(), &set);
    let saver = PostgresSaver::connect(&url).await.unwrap();
    let error = saver.lease("t").await.unwrap_err().to_string();
    assert!(error.contains("READ COMMITTED"), "{error}");
}
