//! Failures of communication with the server.

use std::{
    error::Error,
    io::{self, ErrorKind},
    sync::Arc,
};

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use rustls::CertificateError;
use tokio_postgres::error::SqlState;

/// Error message used when the server does not respond in time.
pub(super) const NO_ANSWER: &str = "the server did not respond in time";

pub(crate) type Failure<R> = crate::failure::Failure<PoolError, R>;

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

/// An error reported by PostgreSQL or by its client. Previously committed data is not lost.
#[derive(Clone, thiserror::Error)]
#[error("PostgreSQL at {database}: {problem}")]
pub struct DatabaseError {
    database: String,
    problem: String,
    source: Arc<PoolError>,
}

graph_core::readable_debug!(DatabaseError);

impl DatabaseError {
    pub(crate) fn new(database: &str, source: PoolError) -> Self {
        let problem = problem(&source);
        Self { database: database.to_owned(), problem, source: Arc::new(source) }
    }
}

/// Describes the error and, where known, how to fix it.
pub(super) fn problem(error: &PoolError) -> String {
    format!("{}{}", describe(error), hint(error))
}

/// Describes the error and its causes. For an error reported by the server, returns the server's own message.
fn describe(error: &PoolError) -> String {
    if let Some(answer) = postgres_error(error).and_then(tokio_postgres::Error::as_db_error) {
        let detail = answer.detail().map(|it| format!(" ({it})")).unwrap_or_default();
        return format!("{}{detail}", answer.message());
    }
    let mut text = match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            "timed out waiting for a free connection".to_owned()
        }
        PoolError::Timeout(_) => NO_ANSWER.to_owned(),
        error if is_setup_timeout(error) => NO_ANSWER.to_owned(),
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            error.to_string()
        }
        other => other.to_string(),
    };
    let mut cause = postgres_error(error).and_then(Error::source);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn hint(error: &PoolError) -> &'static str {
    if matches!(error, PoolError::Timeout(TimeoutType::Wait)) {
        return "; all connections are in use: raise `connections`";
    }
    match sql_state(error).map(SqlState::code) {
        Some("28P01" | "28000") => "; check the user, the password and the server's pg_hba.conf",
        Some("3D000") => "; create it first with CREATE DATABASE",
        Some("42501") => {
            "; grant this user rights on the schema, or connect once as its owner to create the tables"
        }
        Some("53300") => "; lower `connections` or raise the server's max_connections",
        Some("53100") => {
            "; free some disk space on the server and retry; committed data is not lost"
        }
        Some("25006") => "; this server is read-only: use the address of the primary",
        Some("42P01" | "42883" | "3F000") => {
            "; the tables were removed or changed while in use: reconnect to create them again"
        }
        Some("57014") => {
            "; raise the server's statement_timeout or find out which transaction locks the rows"
        }
        _ if is_connection_lost(error) => {
            "; check that the server is running and listens on this address, then retry; committed data is not lost"
        }
        _ => tls_hint(error),
    }
}

fn tls_hint(error: &PoolError) -> &'static str {
    let Some(error) = postgres_error(error).filter(|it| it.to_string().contains("TLS")) else {
        return "";
    };
    let cause = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    let cause = cause.and_then(|it| it.get_ref()?.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "; use a host name from the server's certificate in the URL, or write sslmode=verify-ca"
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "; sslrootcert must name the certificate of the authority that issued the server's certificate"
        }
        Some(rustls::Error::InvalidCertificate(_)) => {
            "; the server's certificate is invalid, for example expired; replace it"
        }
        Some(_) => "; the server must support TLS 1.2 or 1.3",
        None => {
            "; set `ssl = on` on the server, or write sslmode=disable if the network is private"
        }
    }
}

/// Returns whether the connection was lost or could not be established. In that case it is unknown whether the
/// statement was executed.
pub(super) fn is_connection_lost(error: &PoolError) -> bool {
    let lost_here = postgres_error(error).is_some_and(|it| it.is_closed() || is_about_io(it));
    let lost_there = sql_state(error).map(SqlState::code).is_some_and(|it| {
        it.starts_with("08") || matches!(it, "57P01" | "57P02" | "57P03" | "57P05")
    });
    let is_connect_timeout =
        matches!(error, PoolError::Timeout(TimeoutType::Create)) || is_setup_timeout(error);
    lost_here || lost_there || is_connect_timeout
}

/// Returns whether the server did not respond during the setup of a connection.
fn is_setup_timeout(error: &PoolError) -> bool {
    matches!(error, PoolError::PostCreateHook(HookError::Message(it)) if it == NO_ANSWER)
}

/// Returns whether the statement was rolled back because of a concurrent transaction, so that it can be retried.
pub(super) fn is_conflict(error: &PoolError) -> bool {
    matches!(sql_state(error).map(SqlState::code), Some("40001" | "40P01"))
}

pub(super) fn sql_state(error: &PoolError) -> Option<&SqlState> {
    postgres_error(error)?.code()
}

fn is_about_io(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    // These two error kinds mean that a message could not be encoded or decoded.
    cause.is_some_and(|it| !matches!(it.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData))
}

fn postgres_error(error: &PoolError) -> Option<&tokio_postgres::Error> {
    match error {
        // The second pattern matches a connection that was lost during its setup.
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            Some(error)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use deadpool_postgres::{HookError, PoolError};
    use tokio_postgres::NoTls;

    use super::{is_connection_lost, problem};

    /// A connection counts as lost if it breaks while it is being established, or later during its setup.
    #[tokio::test]
    async fn a_connection_that_breaks_during_setup_counts_as_lost() {
        // No server listens on this port.
        let refused = || tokio_postgres::connect("postgresql://u@127.0.0.1:1/d", NoTls);
        let established = PoolError::Backend(refused().await.err().unwrap());
        let set_up = PoolError::PostCreateHook(HookError::Backend(refused().await.err().unwrap()));
        assert!(is_connection_lost(&established) && is_connection_lost(&set_up));
        assert_eq!(problem(&established), problem(&set_up));
    }
}
