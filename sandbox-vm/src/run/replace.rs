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
    /// ```
    /// use sandbox_vm::{GraphRun, Spec};
    /// use serde_json::{Map, json};
    ///
    /// # use graph_core::{START, State, StateGraph};
    /// # use sandbox_vm::{Isolation, backend::InProcess, guest::{Agent, Host}};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Debate { topic: String, verdict: String }
    /// # async fn judge(debate: &Debate) -> DebateUpdate { Debate::update().verdict(format!("{} wins", debate.topic)) }
    /// # fn agent() -> Agent {
    /// #     Agent::new().graph("debate", |host: &Host| {
    /// #         let graph = StateGraph::<Debate>::new().node(judge).edge(START, judge);
    /// #         Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
    /// #     })
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let sandboxes = sandbox_vm::Sandboxes::builder().backend(InProcess::new(agent)).isolation(Isolation::Off);
    /// # let sandboxes = sandboxes.state_dir(dir.path()).open().await?;
    /// let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    /// let run = GraphRun::new("debate").input(input);
    /// let on_event = |event| println!("{event:?}");
    /// let exit = sandboxes.run_graph(Spec::new("debate-7"), run, 3, on_event).await?;
    /// assert_eq!(exit.state()["verdict"], "tea wins");
    /// # Ok(()) }
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
