//! Reduces a trace to a level of detail.

use crate::{
    text::Detail,
    trace::{GraphTrace, TaskTrace, Trace},
};

impl Trace {
    /// Returns a copy of the trace that contains only the parts that its text shows at this level of detail.
    pub fn reduced(&self, detail: Detail) -> Self {
        let mut trace = self.clone();
        reduce_graph(&mut trace.root, detail);
        trace
    }
}

fn reduce_graph(graph: &mut GraphTrace, detail: Detail) {
    if detail == Detail::Full {
        return;
    }
    graph.steps.retain(|it| !it.tasks.is_empty());
    for step in &mut graph.steps {
        step.state = None;
        step.tasks.iter_mut().for_each(|it| reduce_task(it, detail));
    }
}

fn reduce_task(task: &mut TaskTrace, detail: Detail) {
    task.input = Default::default();
    task.graphs.iter_mut().for_each(|it| reduce_graph(it, detail));
    if detail == Detail::Updates {
        return;
    }
    (task.effects, task.writes) = Default::default();
    (task.custom, task.messages) = Default::default();
    for retry in &mut task.retries {
        (retry.custom, retry.messages) = Default::default();
    }
    task.sends.iter_mut().for_each(|it| it.payload = Default::default());
}
