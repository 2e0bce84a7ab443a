//! Orphaned subgraphs: namespaces of graphs that ran inside tasks whose step has been removed. Nothing refers to
//! them any more, so pruning removes them too.

use graph_core::checkpoint::{CheckpointError, CheckpointId, CheckpointKey, Header};

use super::{
    chains::name,
    database::Postgres,
    failure::Failure,
    read::{count, id_at},
};
use crate::body::Body;

/// Number of namespaces that one statement examines.
const PAGE_NAMESPACES: i64 = 500;

/// The namespace of a subgraph and the header of its newest checkpoint.
struct SubgraphNamespace {
    namespace: i64,
    key: CheckpointKey,
    header: Header,
}

/// Removes all subgraph namespaces in a thread for which the parent step no longer exists. Returns the number of
/// removed checkpoints.
pub(super) async fn remove_orphaned_subgraphs(
    database: &Postgres,
    thread: &str,
) -> Result<usize, Failure<CheckpointError>> {
    let (mut removed, mut last) = (0, 0);
    loop {
        let subgraphs = page(database, thread, last).await?;
        let Some(newest) = subgraphs.last().map(|it| it.namespace) else { return Ok(removed) };
        last = newest;
        let mut parents = parent_states(database, thread, &subgraphs).await?.into_iter();
        for SubgraphNamespace { namespace, key, header } in subgraphs {
            // `is_orphaned` consumes the states of this subgraph's parents in order, up to the first missing parent.
            // The remaining ones are skipped below, so that the next subgraph starts with its own parents.
            let mut these = parents.by_ref().take(header.parents.len());
            let next = |_: &str, _| Ok::<_, Failure<_>>(these.next().unwrap_or((true, None)));
            let is_orphaned = header.is_orphaned(&key.namespace, next)?;
            these.for_each(drop);
            if is_orphaned {
                let delete = "SELECT @.delete_namespace($1, $2)";
                let id = &key.id.to_bytes()[..];
                removed += count(&database.query(delete, &[&namespace, &id]).await?)?;
            }
        }
    }
}

async fn page(
    database: &Postgres,
    thread: &str,
    after: i64,
) -> Result<Vec<SubgraphNamespace>, Failure<CheckpointError>> {
    let rows = database
        .query(
            "SELECT n.id, n.name, c.id, c.body FROM @.namespace n, LATERAL (
                 SELECT c.id, c.body FROM @.checkpoint c
                 WHERE c.namespace = n.id ORDER BY c.id DESC LIMIT 1
             ) AS c
             WHERE n.thread = $1 AND n.id > $2 AND position(':'::bytea IN n.name) > 0
             ORDER BY n.id LIMIT $3",
            &[&thread.as_bytes(), &after, &PAGE_NAMESPACES],
        )
        .await?;
    let mut subgraphs = Vec::with_capacity(rows.len());
    for row in rows {
        let namespace = name(row.try_get(1)?);
        let key = CheckpointKey { thread: thread.to_owned(), namespace, id: id_at(&row, 2)? };
        let header = Body::decode(database.codec(), &key, row.try_get(3)?)?.header;
        subgraphs.push(SubgraphNamespace { namespace: row.try_get(0)?, key, header });
    }
    Ok(subgraphs)
}

/// Returns the state of each parent of these subgraphs, in order: whether the parent checkpoint exists, and the
/// newest checkpoint in the parent's namespace.
async fn parent_states(
    database: &Postgres,
    thread: &str,
    subgraphs: &[SubgraphNamespace],
) -> Result<Vec<(bool, Option<CheckpointId>)>, Failure<CheckpointError>> {
    let parents = || subgraphs.iter().flat_map(|it| &it.header.parents);
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
    let mut states = Vec::with_capacity(rows.len());
    for row in rows {
        let newest: Option<&[u8]> = row.try_get(1)?;
        let newest = newest.and_then(|it| it.try_into().ok()).map(CheckpointId::from_bytes);
        states.push((row.try_get(0)?, newest));
    }
    Ok(states)
}
