//! The sources of the sandboxes for debates: created for each debate, shared or pooled.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use sandbox_vm::{Pool, PooledSandbox, Sandboxes, Spec};

/// How the debates of a run share sandboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxReuse {
    /// Each debate creates a sandbox, which is deleted after the debate.
    #[default]
    None,
    /// The given number of sandboxes are started in advance. Each is used by one debate and then deleted.
    Pool(NonZeroUsize),
    /// The sandbox of a debate is paused after the debate and used by the next one. Saves the start of a guest, but a
    /// guest that is compromised in one debate can falsify the later debates of the run.
    KeepAlive,
}

/// Supplies the debates of a run with sandboxes.
#[derive(Debug)]
pub struct SandboxSupply {
    reuse: SandboxReuse,
    /// Opened by the first debate.
    pool: OnceLock<Pool>,
    /// Numbers of the kept sandboxes that debates are using.
    used: Mutex<BTreeSet<usize>>,
}

impl SandboxSupply {
    pub fn new(reuse: SandboxReuse) -> Self {
        Self { reuse, pool: OnceLock::new(), used: Mutex::default() }
    }

    /// Returns the specification of the sandbox for a debate, and keeps the sandbox for this debate until the returned
    /// value is dropped.
    ///
    /// `own` is the specification of a sandbox that only this debate uses, and `shared` of one that all debates of the
    /// run can use. At most `concurrency` debates run at the same time.
    pub(super) async fn reserve(
        &self,
        sandboxes: &Sandboxes,
        own: Spec,
        shared: Spec,
        concurrency: usize,
    ) -> ReservedSandbox<'_> {
        // A name has at most 128 characters, including the id or number that is appended.
        let shared = Spec { name: shared.name.chars().take(95).collect(), ..shared };
        let reservation = match self.reuse {
            SandboxReuse::None => Reservation::Nothing,
            SandboxReuse::Pool(size) => {
                let open = || {
                    let options = Pool::of(sandboxes.clone(), shared).size(size.get());
                    options.max_sandboxes(size.get() + concurrency).open()
                };
                match self.pool.get_or_init(open).acquire().await {
                    Ok(sandbox) => Reservation::Pooled(sandbox),
                    Err(error) => {
                        tracing::warn!(%error, "the pool has no sandbox; creating one");
                        Reservation::Nothing
                    }
                }
            }
            SandboxReuse::KeepAlive => {
                let number = self.take_number();
                let name = format!("{}-{number}", shared.name);
                let spec = Box::new(Spec { name, ..shared });
                Reservation::Kept { spec, number: Number { supply: self, number } }
            }
        };
        ReservedSandbox { own, reservation }
    }

    fn take_number(&self) -> usize {
        let mut used = self.used();
        let number = (1..).find(|it| !used.contains(it)).unwrap_or_default();
        used.insert(number);
        number
    }

    fn used(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sandbox for a debate, which may not exist yet.
pub(super) struct ReservedSandbox<'a> {
    own: Spec,
    reservation: Reservation<'a>,
}

enum Reservation<'a> {
    Nothing,
    /// Dropping it frees its slot in the pool.
    Pooled(PooledSandbox),
    Kept {
        spec: Box<Spec>,
        #[expect(dead_code, reason = "held for its Drop, which frees the number")]
        number: Number<'a>,
    },
}

impl ReservedSandbox<'_> {
    /// Returns the specification of the sandbox. A sandbox from a pool already exists under its name.
    pub(super) fn spec(&self) -> &Spec {
        match &self.reservation {
            Reservation::Nothing => &self.own,
            Reservation::Pooled(sandbox) => sandbox.spec(),
            Reservation::Kept { spec, .. } => spec,
        }
    }

    /// Returns whether the next debate uses the sandbox.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.reservation, Reservation::Kept { .. })
    }
}

/// Number of a kept sandbox. Dropping this value frees the number.
struct Number<'a> {
    supply: &'a SandboxSupply,
    number: usize,
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        self.supply.used().remove(&self.number);
    }
}
