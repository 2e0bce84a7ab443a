//! The declarations of a scripted node in an eager graph: the fields and nodes that its program mentions.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::{
    case::{BranchSpec, GraphSpec, Kind, NodeSpec, Op, TargetSpec, Targets},
    expr::{Expr, Operation},
};

/// The fields that a node and its branches use, and the nodes that it can lead to.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    /// The fields that the node reads. `None` if it reads its whole input.
    pub(crate) reads: Option<BTreeSet<String>>,
    /// The fields that the node writes. `None` if they are only known at run time.
    pub(crate) writes: Option<BTreeSet<String>>,
    pub(crate) targets: BTreeSet<String>,
    /// Nodes of the parent graph that the node can lead to.
    pub(crate) parent_targets: BTreeSet<String>,
}

impl Declared {
    /// Collects the declarations of a node from its operations and from the branches of the graph.
    pub(crate) fn new(graph: &GraphSpec, name: &str, node: &NodeSpec) -> Self {
        let mut used =
            Self { reads: Some(BTreeSet::new()), writes: Some(BTreeSet::new()), ..Self::default() };
        for op in node.ops.iter().chain(node.on_error.iter().flatten()) {
            used.add_op(op);
        }
        for branch in graph.branches.iter().filter(|it| it.from == name) {
            branch.rules.iter().for_each(|it| used.read(&it.r#if));
            for targets in branch.rules.iter().map(|it| &it.to).chain([&branch.r#else]) {
                used.read_targets(targets);
            }
        }
        if let Some(reads) = &node.reads {
            used.reads = Some(reads.iter().cloned().collect());
        }
        used.targets.retain(|it| is_node(graph, it));
        used
    }

    /// Returns the fields that the node reads, without those that are computed or only part of a payload.
    pub(crate) fn stored_reads(&self, graph: &GraphSpec) -> Option<Vec<String>> {
        Some(stored(graph, self.reads.as_ref()?))
    }

    /// Returns the fields that the node writes, without those that are not part of the state.
    pub(crate) fn stored_writes(&self, graph: &GraphSpec) -> Option<Vec<String>> {
        Some(stored(graph, self.writes.as_ref()?))
    }

    fn add_op(&mut self, op: &Op) {
        match op {
            Op::Write { write } => self.write(write),
            Op::Goto { goto } => {
                let names = self.read_targets(goto);
                self.targets.extend(names);
            }
            Op::GotoParent { goto_parent } => {
                let names = self.read_targets(goto_parent);
                self.parent_targets.extend(names);
            }
            Op::Commands { commands } => {
                for command in commands {
                    command.update.iter().for_each(|it| self.write(it));
                    let names = command.goto.iter().flat_map(|it| self.read_targets(it));
                    let names: Vec<_> = names.collect();
                    self.targets.extend(names);
                }
            }
            Op::Interrupt { interrupt: expr, .. } | Op::Emit { emit: expr } => self.read(expr),
            Op::Call { with, .. } => self.read(with),
            Op::Raw { raw } => {
                self.read(raw);
                self.writes = None;
            }
            Op::Fail { .. } | Op::Sleep { .. } => {}
        }
    }

    fn write(&mut self, fields: &IndexMap<String, Expr>) {
        for (field, value) in fields {
            self.read(value);
            if let Some(writes) = &mut self.writes {
                writes.insert(field.clone());
            }
        }
    }

    fn read(&mut self, expr: &Expr) {
        expr.visit(&mut |operation| match operation {
            Operation::Get(field) => {
                if let Some(reads) = &mut self.reads {
                    reads.insert(field.clone());
                }
            }
            Operation::Input(_) | Operation::Keys(_) => self.reads = None,
            _ => {}
        });
    }

    /// Reads the fields of payloads. Returns the names of the targets.
    fn read_targets(&mut self, targets: &Targets) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for target in targets.iter().flatten().flatten() {
            match target {
                TargetSpec::Name(name) => {
                    names.insert(name.clone());
                }
                TargetSpec::Send { send, each, arg } => {
                    names.insert(send.clone());
                    each.iter().chain([arg]).for_each(|it| self.read(it));
                }
            }
        }
        names
    }
}

/// Returns the nodes that a branch can lead to.
pub(crate) fn branch_targets(graph: &GraphSpec, branch: &BranchSpec) -> BTreeSet<String> {
    let targets = branch.rules.iter().map(|it| &it.to).chain([&branch.r#else]);
    let names = targets.flat_map(|it| Declared::default().read_targets(it));
    names.filter(|it| is_node(graph, it)).collect()
}

fn is_node(graph: &GraphSpec, name: &str) -> bool {
    name == "__end__" || graph.nodes.contains_key(name)
}

fn stored(graph: &GraphSpec, names: &BTreeSet<String>) -> Vec<String> {
    let computed = |it: &Kind| matches!(it, Kind::IsLastStep | Kind::RemainingSteps);
    let stored = graph.state.iter().filter(|(_, kind)| !computed(kind));
    stored.map(|it| it.0).filter(|it| names.contains(*it)).cloned().collect()
}
