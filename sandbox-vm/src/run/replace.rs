//! Runs a graph to completion and replaces guests that die.

use graph_core::{Event, RunOutcome, checkpoint::Lookup};
use serde_json::Value;

use super::GraphRun;
use crate::{Error, Sandboxes, Spec, protocol::message::GraphInput};

impl Sandboxes {
    /// Runs a graph to completion in the sandbox described by `spec`. If the guest dies, a new guest resumes from the
    /// last checkpoint and gets the journaled answers instead of repeating external calls. At most `max_guests` guests
    /// are tried.
    ///
    /// `on_event` is called for each event. The sandbox and its files remain after the run. If a guest dies, however,
    /// its files are lost.
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
    ) -> Result<RunOutcome<Value>, Error> {
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
            tracing::warn!(sandbox = spec.name, %error, "a guest died; resuming with another one");
            if run.has_started().await? {
                run.start.input = GraphInput::Nothing;
            }
        }
    }
}

impl GraphRun {
    /// Returns whether the thread has already consumed this run's input, that is, whether its newest checkpoint belongs
    /// to this run.
    async fn has_started(&self) -> Result<bool, Error> {
        let head = self.saver.get(&Lookup::head(&self.start.thread, "")).await;
        let head =
            head.map_err(|error| Error::Graph { error: error.to_string(), terminal: false })?;
        Ok(head.is_some_and(|it| it.header.run == self.start.run))
    }
}
