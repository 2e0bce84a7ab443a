//! Random graphs as plain data.
//!
//! They always come to an end: edges and joins lead forward, and what leads back does so only while the state has
//! counted fewer than [`FUEL`] node runs.

use std::fmt;

use graph_core::{JsonKind, Persistence};
use proptest::{collection::vec, option, prelude::*};

/// How many node runs a state counts before nothing leads back any more.
pub(crate) const FUEL: i64 = 9;

/// Node names by index; their order is not the order of the indexes.
pub(crate) const NAMES: [&str; 8] = ["d", "a", "g", "b", "h", "c", "f", "e"];

/// The fields of a root graph. Every node adds one to `ticks`.
pub(crate) const FIELDS: [&str; 14] = [
    "ticks", "log", "sum", "max", "min", "map", "text", "rows", "any", "eph", "raw", "topic",
    "kept", "last",
];

/// The fields of a graph inside another.
pub(crate) const INNER_FIELDS: [&str; 5] = ["ticks", "log", "map", "text", "any"];

/// What a field does with writes.
pub(crate) fn kind(field: &str) -> JsonKind {
    match field {
        "log" => JsonKind::Append,
        "ticks" | "sum" => JsonKind::Sum,
        "max" => JsonKind::Max,
        "min" => JsonKind::Min,
        "map" => JsonKind::Merge,
        "text" => JsonKind::Concat,
        "rows" => JsonKind::Upsert("id".to_owned()),
        "any" => JsonKind::Any,
        "eph" => JsonKind::Ephemeral,
        "raw" => JsonKind::Untracked,
        "topic" => JsonKind::Topic,
        "kept" => JsonKind::TopicKept,
        "left" => JsonKind::RemainingSteps,
        _ => JsonKind::Last,
    }
}

/// A graph.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) nodes: Vec<Node>,
    /// `None` is START.
    pub(crate) edges: Vec<(Option<usize>, usize)>,
    pub(crate) joins: Vec<(Vec<usize>, usize)>,
    pub(crate) branches: Vec<Branch>,
    /// Whether nodes see how many steps are left.
    pub(crate) sees_left: bool,
    pub(crate) limit: u32,
}

/// A node, known by its index.
#[derive(Clone, Default)]
pub(crate) struct Node {
    /// Fields, and whether they are overwritten.
    pub(crate) writes: Vec<(&'static str, bool)>,
    /// Whether its update is given as two commands.
    pub(crate) split: bool,
    pub(crate) gotos: Vec<(When, usize)>,
    /// Where it sends payloads, and how many.
    pub(crate) sends: Option<(When, usize, usize)>,
    pub(crate) defer: bool,
    /// How often each of its tasks fails.
    pub(crate) fails: u32,
    pub(crate) attempts: u32,
    pub(crate) handler: bool,
    pub(crate) asks: usize,
    /// Writes a text to a field of numbers.
    pub(crate) bad: bool,
    pub(crate) inner: Option<(Keep, Box<Spec>)>,
}

/// What a graph inside a node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Visit,
    Thread,
    Nothing,
}

impl From<Keep> for Persistence {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Visit => Self::Visit,
            Keep::Thread => Self::Thread,
            Keep::Nothing => Self::Nothing,
        }
    }
}

/// Holds where a count leaves that remainder.
#[derive(Clone, Copy)]
pub(crate) struct When {
    pub(crate) modulus: i64,
    pub(crate) remainder: i64,
}

impl When {
    pub(crate) fn holds(self, count: i64) -> bool {
        count.rem_euclid(self.modulus) == self.remainder
    }
}

/// A conditional edge; `from: None` is START.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) from: Option<usize>,
    pub(crate) when: When,
    pub(crate) yes: Vec<Target>,
    pub(crate) no: Vec<Target>,
}

/// Where a branch leads.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Node(usize),
    Send(usize, usize),
    End,
}

/// Which graphs to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
    /// Failures that no retry mends, writes of the wrong type, fields that are not stored, step limits: what a
    /// stop and a new start may change.
    pub(crate) wild: bool,
    /// Graphs inside nodes that keep their state from visit to visit.
    pub(crate) keeps: bool,
    /// One task a step.
    pub(crate) narrow: bool,
}

impl Taste {
    pub(crate) const WILD: Self = Self { wild: true, keeps: false, narrow: false };
    pub(crate) const TAME: Self = Self { wild: false, keeps: false, narrow: false };
    pub(crate) const KEPT: Self = Self { keeps: true, ..Self::TAME };
    pub(crate) const LOOP: Self = Self { wild: true, keeps: false, narrow: true };
}

/// Graphs of that taste.
pub(crate) fn specs(taste: Taste) -> BoxedStrategy<Spec> {
    let inner = graphs(taste, 2..=3, node(taste).boxed());
    let keep = match taste.keeps {
        true => {
            prop_oneof![4 => Just(Keep::Visit), 2 => Just(Keep::Thread), 1 => Just(Keep::Nothing)]
                .boxed()
        }
        false => prop_oneof![3 => Just(Keep::Visit), 1 => Just(Keep::Nothing)].boxed(),
    };
    let nodes =
        (node(taste), option::weighted(0.12, (keep, inner))).prop_map(
            |(node, inner)| match inner {
                Some((keep, mut inner)) => {
                    if keep == Keep::Nothing {
                        // It starts over with every answer, so two questions in a row would go on for ever.
                        inner.hush();
                    }
                    Node {
                        defer: node.defer,
                        inner: Some((keep, Box::new(inner))),
                        ..Node::default()
                    }
                }
                None => node,
            },
        );
    graphs(taste, 2..=8, nodes.boxed()).boxed()
}

/// Indexes come as any number and are brought into range afterwards, so that graphs shrink well.
fn graphs(
    taste: Taste,
    sizes: std::ops::RangeInclusive<usize>,
    node: BoxedStrategy<Node>,
) -> impl Strategy<Value = Spec> {
    let wide = if taste.narrow { 0 } else { 4 };
    let limit = if taste.wild { (1..24u32).boxed() } else { Just(500).boxed() };
    let raw = (
        vec((node, option::weighted(0.8, any::<usize>())), sizes),
        vec((any::<usize>(), any::<usize>()), 0..=wide),
        vec((vec(any::<usize>(), 2..4), any::<usize>()), 0..=wide / 2),
        vec(branch(taste), 0..=if taste.narrow { 1 } else { 3 }),
        if taste.wild { any::<bool>().boxed() } else { Just(false).boxed() },
        limit,
    );
    raw.prop_map(move |(nodes, edges, joins, branches, sees_left, limit)| {
        let count = nodes.len();
        let lead = |(index, (_, after)): (usize, &(Node, Option<usize>))| match (index, after) {
            (0, _) => Some((None, 0)),
            (_, _) if taste.narrow => Some((Some(index - 1), index)),
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
        if taste.narrow {
            branches.push(Branch::back(count - 1));
        }
        let nodes = nodes.into_iter().map(|it| it.0.within(count)).collect();
        let mut spec = Spec { nodes, edges: all, joins, branches, sees_left, limit };
        spec.keep_sends_off_kept_graphs();
        spec
    })
}

fn node(taste: Taste) -> impl Strategy<Value = Node> {
    let many = prop::sample::select(vec![
        "log", "sum", "max", "min", "map", "text", "rows", "any", "topic", "kept",
    ]);
    let single = prop::sample::select(if taste.wild {
        vec!["last", "eph", "raw"]
    } else {
        vec!["last", "eph"]
    });
    let field = prop_oneof![12 => many, 1 => single];
    let rare = |weight: f64| proptest::bool::weighted(weight);
    // Large fan-outs are put into crews by the engine.
    let count = prop_oneof![12 => 1..4usize, 1 => 16..40usize];
    let sends = option::weighted(0.2, (when(), any::<usize>(), count));
    let sends = sends.prop_map(move |it| it.filter(|_| !taste.narrow));
    // A run that nobody answers ends with its first question.
    let quiet = if taste.wild { 40 } else { 12 };
    let trouble =
        match taste.wild {
            true => (prop_oneof![14 => Just(0u32), 1 => 1..3u32], 1..4u32, rare(0.3), rare(0.01))
                .boxed(),
            false => prop_oneof![4 => Just((0, 1, false, false)), 1 => Just((1, 3, false, false))]
                .boxed(),
        };
    (
        vec((field, rare(0.05)), 0..4),
        rare(0.1),
        vec((when(), any::<usize>()), 0..=usize::from(!taste.narrow)),
        sends,
        rare(0.15),
        trouble,
        prop_oneof![quiet => Just(0usize), 1 => Just(1), 1 => Just(2)],
    )
        .prop_map(|(mut writes, split, gotos, sends, defer, trouble, asks)| {
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
                asks,
                bad,
                inner: None,
            }
        })
}

fn branch(taste: Taste) -> impl Strategy<Value = Branch> {
    let target = move || match taste.narrow {
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
    let targets = move || vec(target(), 0..=if taste.narrow { 1 } else { 2 });
    (option::weighted(0.9, any::<usize>()), when(), targets(), targets())
        .prop_map(|(from, when, yes, no)| Branch { from, when, yes, no })
}

fn when() -> impl Strategy<Value = When> {
    (1..4i64, 0..4i64).prop_map(|(modulus, it)| When { modulus, remainder: it % modulus })
}

impl Node {
    fn within(mut self, count: usize) -> Self {
        self.gotos.iter_mut().for_each(|it| it.1 %= count);
        self.sends.iter_mut().for_each(|it| it.1 %= count);
        self
    }
}

impl Branch {
    /// Leads from the last node to the first, as long as there is fuel.
    fn back(last: usize) -> Self {
        let when = When { modulus: 1, remainder: 0 };
        Self { from: Some(last), when, yes: vec![Target::Node(0)], no: Vec::new() }
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
    /// Two visits of one step would share the one history that such a graph has in a thread.
    fn keep_sends_off_kept_graphs(&mut self) {
        let kept: Vec<_> = self.nodes.iter().map(Node::keeps_state).collect();
        for node in &mut self.nodes {
            node.sends = node.sends.filter(|it| !kept[it.1]);
        }
        for branch in &mut self.branches {
            let sends = |it: &Target| matches!(it, Target::Send(to, _) if kept[*to]);
            branch.yes.retain(|it| !sends(it));
            branch.no.retain(|it| !sends(it));
        }
    }

    /// Takes all questions away.
    pub(crate) fn hush(&mut self) {
        for node in &mut self.nodes {
            node.asks = 0;
            if let Some((_, inner)) = &mut node.inner {
                inner.hush();
            }
        }
    }

    /// Whether there are graphs inside.
    pub(crate) fn nests(&self) -> bool {
        self.nodes.iter().any(|it| it.inner.is_some())
    }

    /// Whether some graph inside keeps its state from visit to visit.
    pub(crate) fn keeps_state(&self) -> bool {
        self.nodes.iter().any(Node::keeps_state)
    }

    /// Whether some graph inside starts over whenever the run does.
    pub(crate) fn forgets(&self) -> bool {
        self.nodes.iter().any(|it| matches!(it.inner, Some((Keep::Nothing, _))))
    }
}

impl Node {
    fn keeps_state(&self) -> bool {
        matches!(self.inner, Some((Keep::Thread, _)))
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |it: &Option<usize>| it.map_or("START", |it| NAMES[it]);
        let mut lines = f.debug_list();
        lines.entry(&format_args!("limit {}, sees_left {}", self.limit, self.sees_left));
        for (node, index) in self.nodes.iter().zip(NAMES) {
            lines.entry(&format_args!("{index}: {node:#?}"));
        }
        for (from, to) in &self.edges {
            lines.entry(&format_args!("{} -> {}", name(from), NAMES[*to]));
        }
        for (from, to) in &self.joins {
            let from: Vec<_> = from.iter().map(|it| NAMES[*it]).collect();
            lines.entry(&format_args!("{} -> {}", from.join(" & "), NAMES[*to]));
        }
        for Branch { from, when, yes, no } in &self.branches {
            lines.entry(&format_args!("{} -> if {when:?} {yes:?} else {no:?}", name(from)));
        }
        lines.finish()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (field, overwrite) in &self.writes {
            write!(f, "{field}{} ", if *overwrite { "!" } else { "" })?;
        }
        for (when, to) in &self.gotos {
            write!(f, "goto {} if {when:?}, ", NAMES[*to])?;
        }
        if let Some((when, to, count)) = &self.sends {
            write!(f, "send {count} to {} if {when:?}, ", NAMES[*to])?;
        }
        if self.fails > 0 || self.attempts > 1 {
            write!(f, "fails {} times in {} attempts, ", self.fails, self.attempts)?;
        }
        if self.asks > 0 {
            write!(f, "asks {}, ", self.asks)?;
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
            Some((keep, inner)) => write!(f, "graph {keep:?} {inner:#?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for When {
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
