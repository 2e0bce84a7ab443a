//! Running a graph to its end, though guests die under it.

use graph_core::{Event, Exit, checkpoint::Lookup};
use serde_json::Value;

use super::GraphRun;
use crate::{Error, Sandboxes, Spec, protocol::message::Given};

impl Sandboxes {
    /// Runs a graph to its end in the sandbox of this name. If its guest dies, another one goes on from the last
    /// checkpoint and repeats no call; at most so many guests are tried.
    ///
    /// `told` gets the events as they come. The sandbox stays, with its files, unless its guest has died; those of a
    /// guest that died are lost with it.
    ///
    /// ```no_run
    /// use sandbox_vm::{GraphRun, Sandboxes, Spec};
    /// use serde_json::{Map, json};
    ///
    /// # async fn example(sandboxes: Sandboxes) -> Result<(), sandbox_vm::Error> {
    /// let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    /// let run = GraphRun::new("debate").input(input);
    /// let told = |event| println!("{event:?}");
    /// let exit = sandboxes.run_graph(Spec::new("debate-7"), run, 3, told).await?;
    /// println!("{}", exit.state());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_graph(
        &self,
        spec: Spec,
        mut run: GraphRun,
        guests: u32,
        mut told: impl FnMut(Event) + Send,
    ) -> Result<Exit<Value>, Error> {
        let mut left = guests;
        loop {
            left = left.saturating_sub(1);
            let sandbox = self.create_if_not_exists(spec.clone()).await?;
            let died = match sandbox.run_graph(run.clone()).await {
                Ok(mut running) => {
                    while let Some(event) = running.next().await {
                        told(event);
                    }
                    match running.finish().await {
                        Err(error @ Error::Gone { .. }) => error,
                        ended => return ended,
                    }
                }
                Err(error @ Error::Gone { .. }) => error,
                Err(error) => return Err(error),
            };
            if left == 0 {
                return Err(died);
            }
            tracing::warn!(sandbox = spec.name, %died, "a guest died, and another one goes on");
            if run.has_begun().await? {
                run.start.input = Given::Nothing;
            }
        }
    }
}

impl GraphRun {
    /// Whether the thread has taken in what this run was given: then its newest checkpoint is this run's own.
    async fn has_begun(&self) -> Result<bool, Error> {
        let head = self.saver.get(&Lookup::head(&self.start.thread, "")).await;
        let head =
            head.map_err(|error| Error::Graph { error: error.to_string(), terminal: false })?;
        Ok(head.is_some_and(|it| it.header.run == self.start.run))
    }
}
