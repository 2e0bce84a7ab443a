//! Descriptions of random graphs.
//!
//! All graphs terminate. Edges and joins lead forward, and backward targets are taken only while the counter in the
//! state is less than [`FUEL`]. Each execution of a node increments the counter.

use std::fmt;

use graph_core::{JsonFieldKind, Persistence};
use proptest::{collection::vec, option, prelude::*};

/// Number of node executions after which no backward target is taken.
pub(crate) const FUEL: i64 = 9;

/// Names of the nodes, by index. They are deliberately not in alphabetical order.
pub(crate) const NAMES: [&str; 8] = ["d", "a", "g", "b", "h", "c", "f", "e"];

/// The fields of a root graph. Every node adds one to `ticks`.
pub(crate) const FIELDS: [&str; 14] = [
    "ticks", "log", "sum", "max", "min", "map", "text", "rows", "any", "eph", "raw", "topic",
    "kept", "last",
];

/// The fields of a subgraph.
pub(crate) const INNER_FIELDS: [&str; 5] = ["ticks", "log", "map", "text", "any"];

/// Returns how a field combines writes.
pub(crate) fn kind(field: &str) -> JsonFieldKind {
    match field {
        "log" => JsonFieldKind::Append,
        "ticks" | "sum" => JsonFieldKind::Sum,
        "max" => JsonFieldKind::Max,
        "min" => JsonFieldKind::Min,
        "map" => JsonFieldKind::Merge,
        "text" => JsonFieldKind::Concat,
        "rows" => JsonFieldKind::Upsert("id".to_owned()),
        "any" => JsonFieldKind::Any,
        "eph" => JsonFieldKind::Ephemeral,
        "raw" => JsonFieldKind::Untracked,
        "topic" => JsonFieldKind::Topic,
        "kept" => JsonFieldKind::TopicAccumulate,
        "left" => JsonFieldKind::RemainingSteps,
        _ => JsonFieldKind::Last,
    }
}

/// The description of a graph.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) nodes: Vec<Node>,
    /// Edges as pairs of source and target. The source `None` is START.
    pub(crate) edges: Vec<(Option<usize>, usize)>,
    pub(crate) joins: Vec<(Vec<usize>, usize)>,
    pub(crate) branches: Vec<Branch>,
    /// Whether nodes see the number of remaining steps.
    pub(crate) sees_remaining_steps: bool,
    pub(crate) limit: u32,
}

/// A node, which is identified by its index.
#[derive(Clone, Default)]
pub(crate) struct Node {
    /// Fields that the node writes, and whether each write overwrites the field.
    pub(crate) writes: Vec<(&'static str, bool)>,
    /// Whether the update is returned as two commands.
    pub(crate) split: bool,
    pub(crate) gotos: Vec<(Condition, usize)>,
    /// Condition, target node and number of payloads of the node's sends.
    pub(crate) sends: Option<(Condition, usize, usize)>,
    pub(crate) defer: bool,
    /// Number of times that each task fails.
    pub(crate) fails: u32,
    pub(crate) attempts: u32,
    pub(crate) handler: bool,
    pub(crate) interrupts: usize,
    /// Whether the node writes a string to a numeric field.
    pub(crate) bad: bool,
    pub(crate) inner: Option<(Persistence, Box<Spec>)>,
}

/// A condition that is true if the tick count divided by `modulus` has the remainder `remainder`.
#[derive(Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) modulus: i64,
    pub(crate) remainder: i64,
}

impl Condition {
    pub(crate) fn holds(self, count: i64) -> bool {
        count.rem_euclid(self.modulus) == self.remainder
    }
}

/// A conditional edge. If `from` is `None`, the source is START.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) from: Option<usize>,
    pub(crate) condition: Condition,
    pub(crate) yes: Vec<Target>,
    pub(crate) no: Vec<Target>,
}

/// The target of a branch.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Node(usize),
    Send(usize, usize),
    End,
}

/// Determines which graphs are generated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    /// Whether to include behaviour that a stop followed by a resume may change: permanent failures, invalid
    /// writes, fields that are not stored, and step limits.
    pub(crate) faults: bool,
    /// Whether to include subgraphs that keep their state between visits.
    pub(crate) stateful_subgraphs: bool,
    /// Whether each step has only a single task.
    pub(crate) single_task: bool,
}

impl Profile {
    pub(crate) const UNRESTRICTED: Self =
        Self { faults: true, stateful_subgraphs: false, single_task: false };
    pub(crate) const RESUMABLE: Self =
        Self { faults: false, stateful_subgraphs: false, single_task: false };
    pub(crate) const RESUMABLE_STATEFUL: Self =
        Self { stateful_subgraphs: true, ..Self::RESUMABLE };
    pub(crate) const SINGLE_TASK_LOOP: Self =
        Self { faults: true, stateful_subgraphs: false, single_task: true };
}

/// Generates graphs with this profile.
pub(crate) fn specs(profile: Profile) -> BoxedStrategy<Spec> {
    let inner = graphs(profile, 2..=3, node(profile).boxed());
    let persistence = match profile.stateful_subgraphs {
        true => {
            prop_oneof![4 => Just(Persistence::Invocation), 2 => Just(Persistence::Thread), 1 => Just(Persistence::None)]
                .boxed()
        }
        false => prop_oneof![3 => Just(Persistence::Invocation), 1 => Just(Persistence::None)].boxed(),
    };
    let nodes =
        (node(profile), option::weighted(0.12, (persistence, inner))).prop_map(|(node, inner)| {
            match inner {
                Some((persistence, mut inner)) => {
                    if persistence == Persistence::None {
                        // A stateless subgraph starts over after every answer, so it would never get past two
                        // consecutive interrupts.
                        inner.remove_interrupts();
                    }
                    Node {
                        defer: node.defer,
                        inner: Some((persistence, Box::new(inner))),
                        ..Node::default()
                    }
                }
                None => node,
            }
        });
    graphs(profile, 2..=8, nodes.boxed()).boxed()
}

/// Generates graphs. Indexes are arbitrary numbers that are later reduced to the valid range, so that graphs shrink
/// well.
fn graphs(
    profile: Profile,
    sizes: std::ops::RangeInclusive<usize>,
    node: BoxedStrategy<Node>,
) -> impl Strategy<Value = Spec> {
    let wide = if profile.single_task { 0 } else { 4 };
    let limit = if profile.faults { (1..24u32).boxed() } else { Just(500).boxed() };
    let raw = (
        vec((node, option::weighted(0.8, any::<usize>())), sizes),
        vec((any::<usize>(), any::<usize>()), 0..=wide),
        vec((vec(any::<usize>(), 2..4), any::<usize>()), 0..=wide / 2),
        vec(branch(profile), 0..=if profile.single_task { 1 } else { 3 }),
        if profile.faults { any::<bool>().boxed() } else { Just(false).boxed() },
        limit,
    );
    raw.prop_map(move |(nodes, edges, joins, branches, sees_remaining_steps, limit)| {
        let count = nodes.len();
        let lead = |(index, (_, after)): (usize, &(Node, Option<usize>))| match (index, after) {
            (0, _) => Some((None, 0)),
            (_, _) if profile.single_task => Some((Some(index - 1), index)),
            (_, None) => None,
            (_, Some(after)) => Some(((after % (index + 1)).checked_sub(1), index)),
        };
        let mut all: Vec<_> = nodes.iter().enumerate().filter_map(lead).collect();
        let forward = |(a, b): (usize, usize)| {
            let (a, b) = (a % count, b % count);
            (a != b).then_some((Some(a.min(b)), a.max(b)))
        };
        all.extend(edges.into_iter().filter_map(forward));
        let join = |(from, to): (Vec<usize>, usize)| {
            let mut from: Vec<_> = from.into_iter().map(|it| it % count).collect();
            from.sort_unstable();
            from.dedup();
            let last = *from.last()?;
            (from.len() > 1 && last + 1 < count).then(|| (from, last + 1 + to % (count - last - 1)))
        };
        let joins = joins.into_iter().filter_map(join).collect();
        let mut branches: Vec<_> = branches.into_iter().map(|it| it.within(count)).collect();
        if profile.single_task {
            branches.push(Branch::back(count - 1));
        }
        let nodes = nodes.into_iter().map(|it| it.0.within(count)).collect();
        let mut spec = Spec { nodes, edges: all, joins, branches, sees_remaining_steps, limit };
        spec.remove_sends_to_stateful_subgraphs();
        spec
    })
}

fn node(profile: Profile) -> impl Strategy<Value = Node> {
    let many = prop::sample::select(vec![
        "log", "sum", "max", "min", "map", "text", "rows", "any", "topic", "kept",
    ]);
    let single = prop::sample::select(if profile.faults {
        vec!["last", "eph", "raw"]
    } else {
        vec!["last", "eph"]
    });
    let field = prop_oneof![12 => many, 1 => single];
    let rare = |weight: f64| proptest::bool::weighted(weight);
    // Large fan-outs are included because the engine runs them in batches.
    let count = prop_oneof![12 => 1..4usize, 1 => 16..40usize];
    let sends = option::weighted(0.2, (condition(), any::<usize>(), count));
    let sends = sends.prop_map(move |it| it.filter(|_| !profile.single_task));
    // With `faults`, interrupts are rarer, because a run whose interrupts are not answered ends at its first
    // interrupt.
    let quiet = if profile.faults { 40 } else { 12 };
    let trouble =
        match profile.faults {
            true => (prop_oneof![14 => Just(0u32), 1 => 1..3u32], 1..4u32, rare(0.3), rare(0.01))
                .boxed(),
            false => prop_oneof![4 => Just((0, 1, false, false)), 1 => Just((1, 3, false, false))]
                .boxed(),
        };
    (
        vec((field, rare(0.05)), 0..4),
        rare(0.1),
        vec((condition(), any::<usize>()), 0..=usize::from(!profile.single_task)),
        sends,
        rare(0.15),
        trouble,
        prop_oneof![quiet => Just(0usize), 1 => Just(1), 1 => Just(2)],
    )
        .prop_map(|(mut writes, split, gotos, sends, defer, trouble, interrupts)| {
            writes.sort_unstable();
            writes.dedup_by_key(|it| it.0);
            let (fails, attempts, handler, bad) = trouble;
            Node {
                writes,
                split,
                gotos,
                sends,
                defer,
                fails,
                attempts,
                handler,
                interrupts,
                bad,
                inner: None,
            }
        })
}

fn branch(profile: Profile) -> impl Strategy<Value = Branch> {
    let target = move || match profile.single_task {
        true => {
            prop_oneof![6 => any::<usize>().prop_map(Target::Node), 1 => Just(Target::End)].boxed()
        }
        false => prop_oneof![
            4 => any::<usize>().prop_map(Target::Node),
            2 => (any::<usize>(), 1..3usize).prop_map(|(to, count)| Target::Send(to, count)),
            1 => Just(Target::End),
        ]
        .boxed(),
    };
    let targets = move || vec(target(), 0..=if profile.single_task { 1 } else { 2 });
    (option::weighted(0.9, any::<usize>()), condition(), targets(), targets())
        .prop_map(|(from, condition, yes, no)| Branch { from, condition, yes, no })
}

fn condition() -> impl Strategy<Value = Condition> {
    (1..4i64, 0..4i64).prop_map(|(modulus, it)| Condition { modulus, remainder: it % modulus })
}

impl Node {
    fn within(mut self, count: usize) -> Self {
        self.gotos.iter_mut().for_each(|it| it.1 %= count);
        self.sends.iter_mut().for_each(|it| it.1 %= count);
        self
    }
}

impl Branch {
    /// Returns a branch that leads from the last node to the first while there is fuel.
    fn back(last: usize) -> Self {
        let condition = Condition { modulus: 1, remainder: 0 };
        Self { from: Some(last), condition, yes: vec![Target::Node(0)], no: Vec::new() }
    }

    fn within(mut self, count: usize) -> Self {
        self.from = self.from.map(|it| it % count);
        for target in self.yes.iter_mut().chain(&mut self.no) {
            if let Target::Node(to) | Target::Send(to, _) = target {
                *to %= count;
            }
        }
        self
    }
}

impl Spec {
    /// Removes sends to stateful subgraphs, because two visits in the same step would share the subgraph's single
    /// history.
    fn remove_sends_to_stateful_subgraphs(&mut self) {
        let kept: Vec<_> = self.nodes.iter().map(Node::has_stateful_subgraph).collect();
        for node in &mut self.nodes {
            node.sends = node.sends.filter(|it| !kept[it.1]);
        }
        for branch in &mut self.branches {
            let sends = |it: &Target| matches!(it, Target::Send(to, _) if kept[*to]);
            branch.yes.retain(|it| !sends(it));
            branch.no.retain(|it| !sends(it));
        }
    }

    /// Removes all interrupts.
    pub(crate) fn remove_interrupts(&mut self) {
        for node in &mut self.nodes {
            node.interrupts = 0;
            if let Some((_, inner)) = &mut node.inner {
                inner.remove_interrupts();
            }
        }
    }

    /// Returns whether the graph has subgraphs.
    pub(crate) fn has_subgraphs(&self) -> bool {
        self.nodes.iter().any(|it| it.inner.is_some())
    }

    /// Returns whether the graph contains a subgraph that keeps its state between visits.
    pub(crate) fn has_stateful_subgraph(&self) -> bool {
        self.nodes.iter().any(Node::has_stateful_subgraph)
    }

    /// Returns whether the graph contains a subgraph that starts over in every run.
    pub(crate) fn has_stateless_subgraph(&self) -> bool {
        self.nodes.iter().any(|it| matches!(it.inner, Some((Persistence::None, _))))
    }
}

impl Node {
    fn has_stateful_subgraph(&self) -> bool {
        matches!(self.inner, Some((Persistence::Thread, _)))
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |it: &Option<usize>| it.map_or("START", |it| NAMES[it]);
        let mut finished_tasks = f.debug_list();
        finished_tasks
            .entry(&format_args!("limit {}, sees_left {}", self.limit, self.sees_remaining_steps));
        for (node, index) in self.nodes.iter().zip(NAMES) {
            finished_tasks.entry(&format_args!("{index}: {node:#?}"));
        }
        for (from, to) in &self.edges {
            finished_tasks.entry(&format_args!("{} -> {}", name(from), NAMES[*to]));
        }
        for (from, to) in &self.joins {
            let from: Vec<_> = from.iter().map(|it| NAMES[*it]).collect();
            finished_tasks.entry(&format_args!("{} -> {}", from.join(" & "), NAMES[*to]));
        }
        for Branch { from, condition, yes, no } in &self.branches {
            finished_tasks
                .entry(&format_args!("{} -> if {condition:?} {yes:?} else {no:?}", name(from)));
        }
        finished_tasks.finish()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (field, overwrite) in &self.writes {
            write!(f, "{field}{} ", if *overwrite { "!" } else { "" })?;
        }
        for (condition, to) in &self.gotos {
            write!(f, "goto {} if {condition:?}, ", NAMES[*to])?;
        }
        if let Some((condition, to, count)) = &self.sends {
            write!(f, "send {count} to {} if {condition:?}, ", NAMES[*to])?;
        }
        if self.fails > 0 || self.attempts > 1 {
            write!(f, "fails {} times in {} attempts, ", self.fails, self.attempts)?;
        }
        if self.interrupts > 0 {
            write!(f, "asks {}, ", self.interrupts)?;
        }
        let flags = [
            ("split", self.split),
            ("defer", self.defer),
            ("handler", self.handler),
            ("bad", self.bad),
        ];
        for (flag, _) in flags.iter().filter(|it| it.1) {
            write!(f, "{flag} ")?;
        }
        match &self.inner {
            Some((persistence, inner)) => write!(f, "graph {persistence:?} {inner:#?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticks % {} == {}", self.modulus, self.remainder)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(to) => f.write_str(NAMES[*to]),
            Self::Send(to, count) => write!(f, "{count} x {}", NAMES[*to]),
            Self::End => f.write_str("END"),
        }
    }
}
