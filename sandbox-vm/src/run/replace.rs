//! Running a graph to its end, though guests die under it.

use graph_core::{Event, Exit, checkpoint::Lookup};
use serde_json::Value;

use super::GraphRun;
use crate::{Error, Sandboxes, Spec, protocol::message::GraphInput};

impl Sandboxes {
    /// Runs a graph to its end in the sandbox of this name. If its guest dies, another one goes on from the last
    /// checkpoint and repeats no call; at most so many guests are tried.
    ///
    /// `on_event` gets the events as they come. The sandbox stays, with its files, unless its guest has died; those of a
    /// guest that died are lost with it.
    ///
    /// ```no_run
    /// use sandbox_vm::{GraphRun, Sandboxes, Spec};
    /// use serde_json::{Map, json};
    ///
    /// # async fn example(sandboxes: Sandboxes) -> Result<(), sandbox_vm::Error> {
    /// let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    /// let run = GraphRun::new("debate").input(input);
    /// let on_event = |event| println!("{event:?}");
    /// let exit = sandboxes.run_graph(Spec::new("debate-7"), run, 3, on_event).await?;
    /// println!("{}", exit.state());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_graph(
        &self,
        spec: Spec,
        mut run: GraphRun,
        max_guests: u32,
        mut on_event: impl FnMut(Event) + Send,
    ) -> Result<Exit<Value>, Error> {
        let mut left = max_guests;
        loop {
            left = left.saturating_sub(1);
            let sandbox = self.create_if_not_exists(spec.clone()).await?;
            let error = match sandbox.run_graph(run.clone()).await {
                Ok(mut running) => {
                    while let Some(event) = running.next().await {
                        on_event(event);
                    }
                    match running.finish().await {
                        Err(error @ Error::Terminated { .. }) => error,
                        outcome => return outcome,
                    }
                }
                Err(error @ Error::Terminated { .. }) => error,
                Err(error) => return Err(error),
            };
            if left == 0 {
                return Err(error);
            }
            tracing::warn!(sandbox = spec.name, %error, "a guest died, and another one goes on");
            if run.has_started().await? {
                run.start.input = GraphInput::Nothing;
            }
        }
    }
}

impl GraphRun {
    /// Whether the thread has taken in what this run was given: then its newest checkpoint is this run's own.
    async fn has_started(&self) -> Result<bool, Error> {
        let head = self.saver.get(&Lookup::head(&self.start.thread, "")).await;
        let head =
            head.map_err(|error| Error::Graph { error: error.to_string(), terminal: false })?;
        Ok(head.is_some_and(|it| it.header.run == self.start.run))
    }
}
