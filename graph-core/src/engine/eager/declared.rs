//! Checks that the tasks of an eager graph write only fields and route only to targets that their nodes declare.

use std::sync::Arc;

use crate::{
    context::task::TaskContext,
    engine::{
        outcome::{TaskOutcome, TaskOutput},
        running::Engine,
        target::Target,
    },
    error::{RunError, UndeclaredError},
    graph::fields::DeclaredFields,
};

impl Engine {
    /// Replaces the outcome of a task with a failure if the task wrote a field or routed to a node that its node does
    /// not declare.
    pub(in crate::engine) fn check_declared(&self, cx: &TaskContext, outcome: &mut TaskOutcome) {
        if let TaskOutcome::Done(output) = outcome {
            if let Err(error) = self.undeclared_use(output) {
                let (node, step) = (cx.node().to_owned(), cx.step.number);
                let error = RunError::Node { node, step, error: Arc::new(error), terminal: true };
                *outcome = TaskOutcome::Failed(Box::new(error));
            }
        }
    }

    /// Returns an error if a task wrote a field or routed to a node that its node does not declare.
    #[inline]
    pub(in crate::engine) fn undeclared_use(
        &self,
        output: &TaskOutput,
    ) -> Result<(), UndeclaredError> {
        match &self.graph.declared_fields {
            Some(declared) => self.compare_with(declared, output),
            None => Ok(()),
        }
    }

    fn compare_with(
        &self,
        declared: &DeclaredFields,
        output: &TaskOutput,
    ) -> Result<(), UndeclaredError> {
        // The targets of START are those of the input, which can name any node.
        if output.node == self.graph.start {
            return Ok(());
        }
        for update in &output.updates {
            // An update of another type is reported by the commit.
            let Ok(write_set) = self.state.values.write_set(update) else { continue };
            if let Some(field) = declared.undeclared_write(output.node, &write_set.written) {
                let field = self.state.values.fields()[field].name.clone().into_owned();
                return Err(UndeclaredError::Write { field });
            }
        }
        let node_of = |it: &Target| match it {
            Target::Node(node) | Target::Send(node, _) => *node,
        };
        let mut targets = output.targets.iter().map(node_of);
        match targets.find(|it| !declared.declares_target(output.node, *it)) {
            Some(to) => Err(UndeclaredError::Target { to: self.graph.node(to).label.to_string() }),
            None => Ok(()),
        }
    }
}
