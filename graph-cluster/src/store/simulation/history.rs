//! The history of a simulation, and checks of the protocol's guarantees.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    run::{RunInfo, StartRun},
    run_status::RunStatus,
    store::{Claim, Heartbeat, TaskClaim},
};

/// Lease of all claims in a simulation.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// Tenant whose runs execute one at a time.
pub(super) const TENANT: &str = "tenant";

/// The reason why a simulation failed: an invariant that does not hold.
pub(super) type Violation = String;

/// The worker that holds a run or a task: the serial number of its claim, and the end of its lease.
#[derive(Clone, Copy)]
struct Holder {
    serial: u64,
    until: Duration,
}

pub(super) struct RunHistory {
    thread: String,
    has_tenant: bool,
    /// Position in the order in which the runs were started.
    number: usize,
    status: RunStatus,
    holder: Option<Holder>,
    fence: i64,
    is_cancel_requested: bool,
    n_events: i64,
    ended_legs: BTreeSet<i32>,
    /// Last step whose tasks were posted.
    step: i64,
}

/// All runs and tasks of a simulation.
#[derive(Default)]
pub(super) struct History {
    pub(super) now: Duration,
    pub(super) runs: BTreeMap<String, RunHistory>,
    /// Holders of tasks by run and task. `None` once the outcome is stored.
    tasks: BTreeMap<(String, String), Option<Holder>>,
}

fn check(condition: bool, violation: impl FnOnce() -> String) -> Result<(), Violation> {
    if condition { Ok(()) } else { Err(violation()) }
}

impl History {
    fn run(&mut self, run: &str) -> &mut RunHistory {
        self.runs.get_mut(run).expect("the run was started")
    }

    pub(super) fn started(&mut self, request: &StartRun) {
        let run = RunHistory {
            thread: request.thread.clone(),
            has_tenant: request.tenant.as_deref() == Some(TENANT),
            number: self.runs.len(),
            status: RunStatus::Queued,
            holder: None,
            fence: 0,
            is_cancel_requested: false,
            n_events: 0,
            ended_legs: BTreeSet::new(),
            step: 0,
        };
        self.runs.insert(request.id.clone(), run);
    }

    pub(super) fn cancelled(&mut self, run: &str) {
        let run = self.run(run);
        run.is_cancel_requested = true;
        if run.status != RunStatus::Running {
            run.status = RunStatus::Cancelled;
        }
    }

    pub(super) fn resumed(&mut self, run: &str) {
        let run = self.run(run);
        (run.status, run.is_cancel_requested) = (RunStatus::Queued, false);
    }

    /// Returns whether a worker may claim a run now.
    fn is_claimable(&self, run: &RunHistory) -> bool {
        let blocks = |it: &RunHistory| match it.status {
            RunStatus::Running => true,
            RunStatus::Queued => it.number < run.number,
            _ => false,
        };
        let is_tenant_running = |it: &RunHistory| it.has_tenant && it.status == RunStatus::Running;
        match (run.status, run.holder) {
            (RunStatus::Running, Some(holder)) => holder.until < self.now,
            (RunStatus::Queued, _) => {
                let is_blocked = |it: &RunHistory| {
                    it.thread == run.thread && blocks(it) || run.has_tenant && is_tenant_running(it)
                };
                !self.runs.values().any(is_blocked)
            }
            _ => false,
        }
    }

    pub(super) fn check_nothing_is_claimable(&self) -> Result<(), Violation> {
        match self.runs.iter().find(|it| self.is_claimable(it.1)) {
            Some((run, _)) => Err(format!("{run} can be claimed, but no worker received it")),
            None => Ok(()),
        }
    }

    pub(super) fn check_nothing_is_active(&self) -> Result<(), Violation> {
        match self.runs.iter().find(|it| it.1.status.is_active()) {
            Some((run, _)) => Err(format!("{run} is active, but cannot be claimed")),
            None => Ok(()),
        }
    }

    pub(super) fn claimed(&mut self, claim: &Claim, serial: u64) -> Result<(), Violation> {
        let (id, until) = (&claim.request.id, self.now + LEASE);
        let run = &self.runs[id];
        check(self.is_claimable(run), || {
            format!("{id} was claimed while a lease, its thread or its tenant forbids it")
        })?;
        check(claim.fence > run.fence, || {
            format!("{id} was claimed with a fence that was already used")
        })?;
        check(claim.cancel == run.is_cancel_requested, || format!("{id} lost its cancellation"))?;
        let run = self.run(id);
        (run.status, run.fence) = (RunStatus::Running, claim.fence);
        run.holder = Some(Holder { serial, until });
        Ok(())
    }

    /// Returns the step at which a worker that claims the run continues.
    pub(super) fn step(&self, run: &str) -> i64 {
        self.runs[run].step
    }

    pub(super) fn posted(&mut self, run: &str, step: i64) {
        self.run(run).step = step;
    }

    fn is_holder(&self, run: &str, serial: u64) -> bool {
        self.runs[run].holder.is_some_and(|it| it.serial == serial)
    }

    /// Records the answer to a write of a worker: exactly the newest claim of a run may write.
    pub(super) fn wrote(
        &self,
        what: &str,
        run: &str,
        serial: u64,
        is_stored: bool,
    ) -> Result<(), Violation> {
        match (self.is_holder(run, serial), is_stored) {
            (false, true) => {
                Err(format!("a worker stored {what} of {run} after it had lost the run"))
            }
            (true, false) => Err(format!("the worker of {run} could not store {what}")),
            _ => Ok(()),
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        run: &str,
        serial: u64,
        answer: Heartbeat,
    ) -> Result<(), Violation> {
        let expected = match self.is_holder(run, serial) {
            true if self.runs[run].is_cancel_requested => Heartbeat::Cancel,
            true => Heartbeat::Held,
            false => Heartbeat::Lost,
        };
        check(answer == expected, || {
            format!("the heartbeat of {run} was answered with {answer:?} instead of {expected:?}")
        })?;
        if expected != Heartbeat::Lost {
            let until = self.now + LEASE;
            self.run(run).holder = Some(Holder { serial, until });
        }
        Ok(())
    }

    /// Adds stored events. Returns the number of events of the run.
    pub(super) fn stored_events(&mut self, run: &str, count: usize, is_stored: bool) -> i64 {
        let run = self.run(run);
        run.n_events += if is_stored { count as i64 } else { 0 };
        run.n_events
    }

    pub(super) fn ended(
        &mut self,
        run: &str,
        leg: i32,
        status: RunStatus,
        stored: RunStatus,
    ) -> Result<(), Violation> {
        self.tasks.retain(|key, _| key.0 != run);
        let history = self.run(run);
        let expected = match (history.is_cancel_requested, status) {
            (true, RunStatus::Interrupted | RunStatus::Failed) => RunStatus::Cancelled,
            _ => status,
        };
        (history.status, history.holder) = (expected, None);
        check(stored == expected, || format!("{run} ended as {stored} instead of {expected}"))?;
        check(history.ended_legs.insert(leg), || format!("leg {leg} of {run} ended twice"))
    }

    pub(super) fn requeued(
        &mut self,
        run: &str,
        serial: u64,
        before: &RunInfo,
        after: &RunInfo,
    ) -> Result<(), Violation> {
        if !self.is_holder(run, serial) {
            return check(before == after, || {
                format!("a worker requeued {run} after it had lost the run")
            });
        }
        let history = self.run(run);
        (history.status, history.holder) = (RunStatus::Queued, None);
        check(after.status == RunStatus::Queued, || format!("{run} could not be requeued"))
    }

    pub(super) fn claimed_task(&mut self, claim: &TaskClaim, serial: u64) -> Result<(), Violation> {
        let TaskClaim { run, id, .. } = claim;
        let history = &self.runs[run];
        check(history.status.is_active() && !history.is_cancel_requested, || {
            format!("task {id} of {run} was claimed, although the run is not active")
        })?;
        let key = (run.clone(), id.clone());
        match self.tasks.get(&key) {
            Some(None) => return Err(format!("task {id} of {run} was claimed after its end")),
            Some(Some(holder)) if holder.until >= self.now => {
                return Err(format!("task {id} of {run} was claimed before its lease expired"));
            }
            _ => {}
        }
        let until = self.now + LEASE;
        self.tasks.insert(key, Some(Holder { serial, until }));
        Ok(())
    }

    fn is_task_holder(&self, claim: &TaskClaim, serial: u64) -> bool {
        let holder = self.tasks.get(&(claim.run.clone(), claim.id.clone()));
        holder.is_some_and(|it| it.is_some_and(|it| it.serial == serial))
    }

    pub(super) fn wrote_to_task(
        &self,
        claim: &TaskClaim,
        serial: u64,
        is_stored: bool,
    ) -> Result<(), Violation> {
        let TaskClaim { run, id, .. } = claim;
        check(!is_stored || self.is_task_holder(claim, serial), || {
            format!("a worker stored messages of task {id} of {run} after it had lost the task")
        })
    }

    /// Records the end of a task. `stored` is the outcome in the database: the serial number of the claim that stored
    /// it.
    pub(super) fn ended_task(
        &mut self,
        claim: &TaskClaim,
        serial: u64,
        stored: Option<&str>,
    ) -> Result<(), Violation> {
        let TaskClaim { run, id, .. } = claim;
        let is_own = stored == Some(&*serial.to_string());
        check(!is_own || self.is_task_holder(claim, serial), || {
            format!("a worker ended task {id} of {run} after it had lost the task")
        })?;
        if is_own {
            self.tasks.insert((run.clone(), id.clone()), None);
        }
        Ok(())
    }
}
