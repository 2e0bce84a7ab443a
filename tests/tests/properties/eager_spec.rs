//! Descriptions of random graphs whose nodes declare their fields.

use fastrand::Rng;

/// Names of nodes. The order of the names differs from the order of the nodes.
pub(crate) const NAMES: [&str; 10] = ["d", "a", "g", "b", "h", "c", "f", "e", "j", "i"];

/// Fields of the state. `one` and `token` accept one write per step, `mark` is cleared by a step that does not write
/// it, and `token` is not stored.
pub(crate) const FIELDS: [&str; 7] = ["list", "sum", "map", "one", "text", "mark", "token"];

/// The description of a graph.
#[derive(Clone, Debug)]
pub(crate) struct EagerSpec {
    pub(crate) nodes: Vec<Node>,
    pub(crate) joins: Vec<(Vec<usize>, usize)>,
    pub(crate) step_limit: u32,
    /// Maximum number of concurrent tasks.
    pub(crate) concurrency: Option<usize>,
}

/// Features of a random graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    /// Whether nodes fail and step limits are reached.
    pub(crate) faults: bool,
    /// Whether nodes use a field that is not stored, so that a crash changes the result.
    pub(crate) unstored: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) reads: Option<Vec<&'static str>>,
    pub(crate) writes: Vec<&'static str>,
    /// Whether the writes are declared.
    pub(crate) declares_writes: bool,
    pub(crate) edges: Vec<usize>,
    /// Nodes that the node's command leads to if the hash of its input is even.
    pub(crate) gotos: Vec<usize>,
    /// Nodes that the node's command sends payloads to if the hash of its input is even.
    pub(crate) sends: Vec<usize>,
    /// Nodes of which a branch chooses one.
    pub(crate) branch: Vec<usize>,
    /// Nodes that the branch sends a payload to.
    pub(crate) branch_sends: Vec<usize>,
    pub(crate) from_start: bool,
    pub(crate) interrupts: bool,
    pub(crate) defer: bool,
    pub(crate) fails: bool,
    /// Whether the node makes an external call.
    pub(crate) effect: bool,
}

impl EagerSpec {
    pub(crate) fn new(seed: u64, features: Features) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(3..=NAMES.len());
        let mut nodes: Vec<Node> = (0..count).map(|index| node(&mut rng, index, count)).collect();
        if !features.faults {
            nodes.iter_mut().for_each(|it| it.fails = false);
        }
        nodes[0].from_start = true;
        // Two writers in one step are a conflict, which `compile` reports if both always run.
        for single in ["one", "token"] {
            let writer = rng.usize(0..count);
            for (index, node) in nodes.iter_mut().enumerate() {
                node.writes.retain(|it| *it != single || index == writer);
            }
        }
        if !features.unstored {
            for node in &mut nodes {
                node.reads.iter_mut().for_each(|it| it.retain(|it| *it != "token"));
                node.writes.retain(|it| *it != "token");
            }
        }
        let joins = (0..rng.usize(0..=2)).map(|_| {
            let to = rng.usize(2..count);
            let mut from: Vec<_> = (0..to).collect();
            rng.shuffle(&mut from);
            from.truncate(2);
            (from, to)
        });
        let joins = joins.collect();
        let step_limit = if features.faults { rng.u32(3..12) } else { 100 };
        // With a limit on concurrent tasks, it depends on timing which tasks start before another one fails.
        let is_limited = !features.faults && rng.u8(0..3) == 0;
        let concurrency = is_limited.then(|| rng.usize(1..4));
        Self { nodes, joins, step_limit, concurrency }
    }
}

fn subset(rng: &mut Rng, most: usize) -> Vec<&'static str> {
    let mut fields = FIELDS.to_vec();
    rng.shuffle(&mut fields);
    fields.truncate(rng.usize(0..=most));
    fields
}

fn node(rng: &mut Rng, index: usize, count: usize) -> Node {
    let forward = |rng: &mut Rng, most: usize| -> Vec<usize> {
        let targets = (0..rng.usize(0..=most)).map(|_| rng.usize(index + 1..=count));
        targets.filter(|it| *it < count).collect()
    };
    let mut some = |one_in: u8, most: usize| match rng.u8(0..one_in) {
        0 => forward(rng, most),
        _ => Vec::new(),
    };
    let (gotos, sends) = (some(4, 2), some(3, 2));
    let (branch, branch_sends) = (some(3, 3), some(5, 1));
    Node {
        reads: (rng.u8(0..8) > 0).then(|| subset(rng, 2)),
        writes: subset(rng, 2),
        declares_writes: rng.u8(0..8) > 0,
        edges: forward(rng, 2),
        gotos,
        sends,
        branch,
        branch_sends,
        from_start: rng.u8(0..3) == 0,
        interrupts: rng.u8(0..8) == 0,
        defer: rng.u8(0..10) == 0,
        fails: rng.u8(0..30) == 0,
        effect: rng.u8(0..4) == 0,
    }
}
