//! What can go wrong between us and the server.

use std::{
    error::Error,
    io::{self, ErrorKind},
    sync::Arc,
};

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use graph_core::checkpoint::CheckpointError;
use tokio_postgres::error::SqlState;

use crate::codec::CodecError;

/// What is said of a server that keeps silent.
pub(super) const NO_ANSWER: &str = "the server did not answer in time";

/// Why a piece of work came to nothing: the database failed, or the work itself refuses with an `R`.
#[derive(Debug)]
pub(crate) enum Failure<R> {
    Database(PoolError),
    Refused(R),
}

impl<R> From<PoolError> for Failure<R> {
    fn from(error: PoolError) -> Self {
        Self::Database(error)
    }
}

impl<R> From<tokio_postgres::Error> for Failure<R> {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

impl From<CheckpointError> for Failure<CheckpointError> {
    fn from(error: CheckpointError) -> Self {
        Self::Refused(error)
    }
}

impl From<CodecError> for Failure<CheckpointError> {
    fn from(error: CodecError) -> Self {
        Self::Refused(CheckpointError::Storage(Arc::new(error)))
    }
}

/// PostgreSQL could not do its work. What was committed before is still there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("PostgreSQL at {database}: {problem}")]
pub struct DatabaseError {
    database: String,
    problem: String,
    source: Arc<PoolError>,
}

impl DatabaseError {
    pub(crate) fn new(database: &str, source: PoolError) -> Self {
        let problem = problem(&source);
        Self { database: database.to_owned(), problem, source: Arc::new(source) }
    }
}

/// What is wrong, and what to do about it.
pub(super) fn problem(error: &PoolError) -> String {
    format!("{}{}", words(error), hint(error))
}

/// The error with its causes; a server's answer in the server's own words.
fn words(error: &PoolError) -> String {
    if let Some(answer) = statement(error).and_then(tokio_postgres::Error::as_db_error) {
        let detail = answer.detail().map(|it| format!(" ({it})")).unwrap_or_default();
        return format!("{}{detail}", answer.message());
    }
    let mut words = match error {
        PoolError::Timeout(TimeoutType::Wait) => "no connection became free in time".to_owned(),
        PoolError::Timeout(_) => NO_ANSWER.to_owned(),
        error if is_silence(error) => NO_ANSWER.to_owned(),
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            error.to_string()
        }
        other => other.to_string(),
    };
    let mut cause = statement(error).and_then(Error::source);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

fn hint(error: &PoolError) -> &'static str {
    if matches!(error, PoolError::Timeout(TimeoutType::Wait)) {
        return "; all are in use: raise `connections`";
    }
    match code(error).map(SqlState::code) {
        Some("28P01" | "28000") => {
            "; check the user and the password, and the server's pg_hba.conf"
        }
        Some("3D000") => "; make it first: CREATE DATABASE",
        Some("42501") => {
            "; grant this user rights on the schema, or let its owner connect once to make the tables"
        }
        Some("53300") => "; lower `connections` here or raise the server's max_connections",
        Some("53100") => "; make room on the server and run again, nothing committed is lost",
        Some("25006") => "; this server only reads: give the address of the primary",
        Some("42P01" | "42883" | "3F000") => {
            "; the tables were removed or changed while in use: connect again to make them anew"
        }
        Some("57014") => "; raise the server's statement_timeout or look for what holds the rows",
        _ if is_lost(error) => {
            "; is the server up, and does it listen there? What was committed is not lost: run again"
        }
        _ if is_about_tls(error) => {
            "; for TLS make a pool with a TLS connector and use `from_pool`"
        }
        _ => "",
    }
}

/// Whether the connection is gone, or could not be made: then nobody knows whether the statement was done.
pub(super) fn is_lost(error: &PoolError) -> bool {
    let lost_here = statement(error).is_some_and(|it| it.is_closed() || is_about_io(it));
    let lost_there = code(error).map(SqlState::code).is_some_and(|it| {
        it.starts_with("08") || matches!(it, "57P01" | "57P02" | "57P03" | "57P05")
    });
    let in_vain = matches!(error, PoolError::Timeout(TimeoutType::Create)) || is_silence(error);
    lost_here || lost_there || in_vain
}

/// Whether the server did not answer while a connection was set up.
fn is_silence(error: &PoolError) -> bool {
    matches!(error, PoolError::PostCreateHook(HookError::Message(it)) if it == NO_ANSWER)
}

/// Whether the statement was undone because of another one, so that it may just be done again.
pub(super) fn is_conflict(error: &PoolError) -> bool {
    matches!(code(error).map(SqlState::code), Some("40001" | "40P01"))
}

pub(super) fn code(error: &PoolError) -> Option<&SqlState> {
    statement(error)?.code()
}

fn is_about_tls(error: &PoolError) -> bool {
    statement(error).is_some_and(|it| it.to_string().contains("TLS"))
}

fn is_about_io(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    // These two are messages that cannot be made or understood.
    cause.is_some_and(|it| !matches!(it.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}

fn statement(error: &PoolError) -> Option<&tokio_postgres::Error> {
    match error {
        // The second is one that was lost before it was set up.
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            Some(error)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deadpool_postgres::{HookError, PoolError};
    use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};
    use tokio_postgres::NoTls;

    use super::{super::Postgres, is_lost, problem};

    /// It may break while it is made, and while it is set up.
    #[tokio::test]
    async fn a_connection_that_broke_is_lost_whenever_that_was() {
        // Nobody listens there.
        let refused = || tokio_postgres::connect("postgresql://u@127.0.0.1:1/d", NoTls);
        let made = PoolError::Backend(refused().await.err().unwrap());
        let set_up = PoolError::PostCreateHook(HookError::Backend(refused().await.err().unwrap()));
        assert!(is_lost(&made) && is_lost(&set_up));
        assert_eq!(problem(&made), problem(&set_up));
    }

    #[tokio::test]
    async fn a_server_that_greets_and_then_keeps_silent_is_not_waited_for() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgresql://u@{}/d?connect_timeout=1", server.local_addr().unwrap());
        tokio::spawn(async move {
            let mut greeted = Vec::new();
            while let Ok((mut connection, _)) = server.accept().await {
                // Welcome, and ready for a statement.
                let _ = connection.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await;
                greeted.push(connection);
            }
        });
        let connect = timeout(Duration::from_secs(60), Postgres::connect(&url));
        let error = connect.await.expect("it is not waited for").unwrap_err().to_string();
        assert!(error.contains("the server did not answer in time; is the server up"), "{error}");
    }
}
