//! The tables, and how older ones become newer ones.

use deadpool_postgres::Object;
use tokio_postgres::{Error, Transaction};

/// What makes version `n + 1` of the tables out of version `n`. Never change one that was released.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// What a schema is to us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Ours,
    Foreign,
    TooNew(i64),
}

/// The schema that holds the tables.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    name: String,
    prefix: String,
}

impl Schema {
    /// Only plain names, so that one can stand in any statement; the problem in words otherwise.
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let fits = (1..=63).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(|it: char| it.is_ascii_digit());
        match fits {
            true => Ok(Self { name: name.to_owned(), prefix: format!("\"{name}\".") }),
            false => Err(format!(
                "`{name}` is no name for the schema: use up to 63 letters, digits and underscores"
            )),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A statement with the schema in place of every `@.`
    pub(super) fn sql(&self, statement: &str) -> String {
        statement.replace("@.", &self.prefix)
    }
}

/// Brings the tables to the newest version, unless they are not ours or newer still.
pub(super) async fn prepare(connection: &mut Object, schema: &Schema) -> Result<Found, Error> {
    let transaction = connection.transaction().await?;
    // Looked at without a lock first: who may only read and write the tables needs no more.
    if let State::Known(found) = look(&transaction, schema).await? {
        return Ok(found);
    }
    // Another process may do the same at the same time: it is looked again under the lock.
    let name = format!("graph-store schema {}", schema.name);
    transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&name]).await?;
    let version = match look(&transaction, schema).await? {
        State::Known(found) => return Ok(found),
        State::Version(version) => version,
    };
    let missing = MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0));
    if version == 0 {
        let make =
            "CREATE SCHEMA IF NOT EXISTS \"graph_store\"".replace("graph_store", &schema.name);
        // Only if it is missing: an empty one may have been made for us by somebody with more rights.
        if !exists(&transaction, schema).await? {
            transaction.batch_execute(&make).await?;
        }
        let make = "CREATE TABLE @.graph_store_version (version bigint NOT NULL);
                    INSERT INTO @.graph_store_version VALUES (0)";
        transaction.batch_execute(&schema.sql(make)).await?;
    }
    for migration in missing {
        transaction.batch_execute(&schema.sql(migration)).await?;
    }
    let update = schema.sql("UPDATE @.graph_store_version SET version = $1");
    transaction.execute(&update, &[&NEWEST]).await?;
    transaction.commit().await?;
    Ok(Found::Ours)
}

enum State {
    Known(Found),
    /// The tables are to be migrated from this version; from 0, to be made.
    Version(i64),
}

async fn look(transaction: &Transaction<'_>, schema: &Schema) -> Result<State, Error> {
    let tables = transaction
        .query_one(
            "SELECT count(*), count(*) FILTER (WHERE c.relname = 'graph_store_version')
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1",
            &[&schema.name],
        )
        .await?;
    Ok(match (tables.get(0), tables.get(1)) {
        (0_i64, _) => State::Version(0),
        (_, 0_i64) => State::Known(Found::Foreign),
        _ => {
            let select = schema.sql("SELECT version FROM @.graph_store_version");
            match transaction.query_one(&select, &[]).await?.get(0) {
                NEWEST => State::Known(Found::Ours),
                version if version > NEWEST => State::Known(Found::TooNew(version)),
                version => State::Version(version),
            }
        }
    })
}

async fn exists(transaction: &Transaction<'_>, schema: &Schema) -> Result<bool, Error> {
    let select = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    Ok(transaction.query_opt(select, &[&schema.name]).await?.is_some())
}
