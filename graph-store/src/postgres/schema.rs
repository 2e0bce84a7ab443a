//! The tables and their migrations.

use deadpool_postgres::Object;
use tokio_postgres::{Error, Transaction};

use crate::error::SchemaStatus;

/// Migration `n` upgrades the tables from version `n` to `n + 1`. Never change a migration that has been released.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql")];

pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// The schema that contains the tables.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    name: String,
    prefix: String,
}

impl Schema {
    /// Creates the schema. Accepts only names that are valid in every statement without escaping; for other names,
    /// returns a description of the problem.
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let fits = (1..=63).contains(&name.len())
            && name.chars().all(plain)
            && !name.starts_with(|it: char| it.is_ascii_digit());
        match fits {
            true => Ok(Self { name: name.to_owned(), prefix: format!("\"{name}\".") }),
            false => Err(format!(
                "`{name}` is not a valid schema name: use at most 63 letters, digits and underscores, and do not \
                 start with a digit"
            )),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces every `@.` in a statement with the name of the schema.
    pub(super) fn sql(&self, statement: &str) -> String {
        statement.replace("@.", &self.prefix)
    }
}

/// Creates the tables or migrates them to the newest version, unless they belong to another program or are too new.
pub(super) async fn prepare(
    connection: &mut Object,
    schema: &Schema,
) -> Result<SchemaStatus, Error> {
    let transaction = connection.transaction().await?;
    // First inspect without a lock, because this requires no privileges other than those for reading and writing the
    // tables.
    if let Inspection::Final(found) = inspect(&transaction, schema).await? {
        return Ok(found);
    }
    // Another process may be migrating at the same time, so check again under the lock.
    let name = format!("graph-store schema {}", schema.name);
    transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&name]).await?;
    let version = match inspect(&transaction, schema).await? {
        Inspection::Final(found) => return Ok(found),
        Inspection::NeedsMigration(version) => version,
    };
    let missing = MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0));
    if version == 0 {
        let make =
            "CREATE SCHEMA IF NOT EXISTS \"graph_store\"".replace("graph_store", &schema.name);
        // Create the schema only if it is missing. A user with more privileges may have created an empty schema for
        // us.
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
    Ok(SchemaStatus::Current)
}

enum Inspection {
    Final(SchemaStatus),
    /// The tables must be migrated from this version. If the version is 0, they must be created.
    NeedsMigration(i64),
}

async fn inspect(transaction: &Transaction<'_>, schema: &Schema) -> Result<Inspection, Error> {
    let tables = transaction
        .query_one(
            "SELECT count(*), count(*) FILTER (WHERE c.relname = 'graph_store_version')
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = $1",
            &[&schema.name],
        )
        .await?;
    Ok(match (tables.get(0), tables.get(1)) {
        (0_i64, _) => Inspection::NeedsMigration(0),
        (_, 0_i64) => Inspection::Final(SchemaStatus::Foreign),
        _ => {
            let select = schema.sql("SELECT version FROM @.graph_store_version");
            match transaction.query_one(&select, &[]).await?.get(0) {
                NEWEST => Inspection::Final(SchemaStatus::Current),
                version if version > NEWEST => Inspection::Final(SchemaStatus::TooNew(version)),
                version => Inspection::NeedsMigration(version),
            }
        }
    })
}

async fn exists(transaction: &Transaction<'_>, schema: &Schema) -> Result<bool, Error> {
    let select = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    Ok(transaction.query_opt(select, &[&schema.name]).await?.is_some())
}
