//! Serves LangGraph's API for the demonstration graph. The workers execute its runs.

use std::{error::Error, sync::Arc};

use graph_cluster::Client;
use graph_server::{
    http::Guard,
    langgraph::{ApiOptions, Graphs, LangGraphApi, Schemas},
    serve_until,
};
use graph_store::{Postgres, PostgresSaver, PostgresStore};
use tokio::net::TcpListener;

use crate::job::{EffectLog, nodes};

/// Serves the API on an address of this machine until `shutdown` completes.
pub(crate) async fn serve(
    url: &str,
    address: &str,
    client: Client,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let database = Postgres::connect(url).await?;
    let (saver, store) = (PostgresSaver::new(&database), PostgresStore::new(&database));
    let graphs = Graphs::new(Arc::new(saver), Arc::new(store))
        .add_with_context("job", nodes(None), Schemas::default(), |_| Ok(EffectLog::default()))?
        .execute_with("job", client)?;
    let api = LangGraphApi::connect(graphs, url, ApiOptions::default()).await?;
    let guard = Guard::new().rate_limit(u32::MAX);
    let guarded = guard.wrap(api.open_routes(), api.routes(), api.metrics());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    serve_until(listener, guarded, shutdown).await?;
    api.shut_down().await;
    Ok(())
}
