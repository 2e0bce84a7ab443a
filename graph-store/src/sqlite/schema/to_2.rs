//! Migration from version 1 to 2: checkpoint bodies and records move from their own tables into `link`.

use rusqlite::{Connection, params};

use crate::sqlite::{chains::add_link, put::id_at, records};

pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(include_str!("2.sql"))?;
    move_checkpoints(connection)?;
    move_records(connection)?;
    connection.execute_batch("DROP TABLE checkpoint_1; DROP TABLE record_1;")
}

fn move_checkpoints(connection: &Connection) -> rusqlite::Result<()> {
    let mut select = connection.prepare("SELECT namespace, id, body FROM checkpoint_1")?;
    let mut insert = connection.prepare(
        "INSERT INTO checkpoint (namespace, id, made_at, run, tips, body)
         SELECT namespace, id, made_at, run, tips, ?3 FROM checkpoint_1
         WHERE namespace = ?1 AND id = ?2",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (namespace, id): (i64, [u8; 16]) = (row.get(0)?, row.get(1)?);
        let body = add_link(connection, None, 0, row.get_ref(2)?.as_blob()?)?;
        insert.execute(params![namespace, id, body])?;
    }
    Ok(())
}

fn move_records(connection: &Connection) -> rusqlite::Result<()> {
    let mut select =
        connection.prepare("SELECT namespace, checkpoint, body FROM record_1 ORDER BY seq")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        records::add(connection, row.get(0)?, id_at(row, 1)?, [row.get_ref(2)?.as_blob()?])?;
    }
    Ok(())
}
