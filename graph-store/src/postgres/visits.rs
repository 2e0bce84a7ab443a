//! Visits: graphs inside tasks whose step is gone. Nothing leads to them any more, so pruning takes them along.

use graph_core::checkpoint::{CheckpointError, CheckpointId, Header, Place};

use super::{chains::name, database::Postgres, failure::Failure, read::id_at, remove::count};
use crate::body::Body;

/// How many namespaces are looked at at once.
const PAGE: i64 = 500;

/// A graph that a task visited, as its newest checkpoint knows it.
struct Visit {
    namespace: i64,
    place: Place,
    header: Header,
}

/// Removes the graphs of a thread whose visit's step is gone; says how many checkpoints went.
pub(super) async fn remove_outlived(
    database: &Postgres,
    thread: &str,
) -> Result<usize, Failure<CheckpointError>> {
    let (mut removed, mut last) = (0, 0);
    loop {
        let visits = page(database, thread, last).await?;
        let Some(newest) = visits.last().map(|it| it.namespace) else { return Ok(removed) };
        last = newest;
        let mut around = around(database, thread, &visits).await?.into_iter();
        for Visit { namespace, place, header } in visits {
            // It asks for its parents in their order, up to the first that is lost.
            let mut these = around.by_ref().take(header.parents.len());
            let next = |_: &str, _| Ok::<_, Failure<_>>(these.next().unwrap_or((true, None)));
            let outlived = header.outlived(&place.namespace, next)?;
            these.for_each(drop);
            if outlived {
                let delete = "SELECT @.delete_namespace($1, $2)";
                let id = &place.id.to_bytes()[..];
                removed += count(&database.query(delete, &[&namespace, &id]).await?)?;
            }
        }
    }
}

async fn page(
    database: &Postgres,
    thread: &str,
    after: i64,
) -> Result<Vec<Visit>, Failure<CheckpointError>> {
    let rows = database
        .query(
            "SELECT n.id, n.name, c.id, c.body FROM @.namespace n, LATERAL (
                 SELECT c.id, c.body FROM @.checkpoint c
                 WHERE c.namespace = n.id ORDER BY c.id DESC LIMIT 1
             ) AS c
             WHERE n.thread = $1 AND n.id > $2 AND position(':'::bytea IN n.name) > 0
             ORDER BY n.id LIMIT $3",
            &[&thread.as_bytes(), &after, &PAGE],
        )
        .await?;
    let mut visits = Vec::with_capacity(rows.len());
    for row in rows {
        let namespace = name(row.try_get(1)?);
        let place = Place { thread: thread.to_owned(), namespace, id: id_at(&row, 2)? };
        let header = Body::decode(database.codec(), &place, row.try_get(3)?)?.header;
        visits.push(Visit { namespace: row.try_get(0)?, place, header });
    }
    Ok(visits)
}

/// What is left of the steps around these visits, parent by parent: whether it is there, and what is the newest.
async fn around(
    database: &Postgres,
    thread: &str,
    visits: &[Visit],
) -> Result<Vec<(bool, Option<CheckpointId>)>, Failure<CheckpointError>> {
    let parents = || visits.iter().flat_map(|it| &it.header.parents);
    let names: Vec<&[u8]> = parents().map(|(outer, _)| outer.as_bytes()).collect();
    let ids: Vec<Vec<u8>> = parents().map(|(_, id)| id.to_bytes().to_vec()).collect();
    let rows = database
        .query(
            "SELECT c.id IS NOT NULL, (
                 SELECT c.id FROM @.checkpoint c WHERE c.namespace = n.id ORDER BY c.id DESC LIMIT 1
             )
             FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS p (name, id, n)
             LEFT JOIN @.namespace n ON n.thread = $1 AND n.name = p.name
             LEFT JOIN @.checkpoint c ON c.namespace = n.id AND c.id = p.id
             ORDER BY p.n",
            &[&thread.as_bytes(), &names, &ids],
        )
        .await?;
    let mut around = Vec::with_capacity(rows.len());
    for row in rows {
        let newest: Option<&[u8]> = row.try_get(1)?;
        let newest = newest.and_then(|it| it.try_into().ok()).map(CheckpointId::from_bytes);
        around.push((row.try_get(0)?, newest));
    }
    Ok(around)
}
