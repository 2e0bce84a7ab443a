//! Snapshots, for back ends that have them.

use std::time::{Duration, SystemTime};

use super::{Bench, Check, Failure, check, ensure, fail};
use crate::{Error, Image, Program, Sandbox, Spec, backend::Snapshot};

pub(super) const CHECKS: &[Check] = &[
    check!("snapshot: the files come back, and the sandbox itself goes on", [Snapshot], files),
    check!("snapshot: what was under way is refused, and later it is not", [Snapshot], busy),
    check!(
        "snapshot: two guests of one have different randomness and the right time",
        [Snapshot],
        apart
    ),
    check!("snapshot: one of another image or of other limits is refused", [Snapshot], other),
];

/// A sandbox with a file in it, its snapshot, and the folder that the snapshot is removed with.
async fn keep(bench: &Bench) -> Result<(Sandbox, Snapshot, tempfile::TempDir), Failure> {
    let folder = tempfile::tempdir()?;
    let sandbox = bench.sandbox(bench.spec()).await?;
    sandbox.fs().write("notes/kept", "before").await?;
    let snapshot = sandbox.snapshot(folder.path().join("snapshot")).await?;
    Ok((sandbox, snapshot, folder))
}

fn named(bench: &Bench, name: &str) -> Spec {
    Spec { name: name.to_owned(), ..bench.spec() }
}

async fn files(bench: Bench) -> Result<(), Failure> {
    let (sandbox, snapshot, _folder) = keep(&bench).await?;
    sandbox.fs().write("notes/later", "after").await?;
    let copy = bench.sandboxes.restore(named(&bench, "copy"), snapshot.clone()).await?;
    ensure!(copy.fs().read("notes/kept").await? == b"before", "another file came back");
    let later = copy.fs().read("notes/later").await;
    ensure!(later.as_ref().is_err_and(Error::is_not_found), "{later:?}");
    let said = copy.exec(Program::new(&*bench.program).args(["say", "alive", ""])).await?;
    ensure!(said.stdout == b"alive", "{said:?}");
    // A name is taken while its sandbox lives, and the two are two.
    let again = bench.sandboxes.restore(named(&bench, "copy"), snapshot).await;
    ensure!(matches!(again, Err(Error::BadSpec { .. })), "{again:?}");
    copy.fs().remove("notes").await?;
    ensure!(sandbox.fs().read("notes/later").await? == b"after", "the copy reaches the original");
    Ok(())
}

async fn busy(bench: Bench) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let sandbox = bench.sandbox(bench.spec()).await?;
    let sleeping = sandbox.exec(Program::new(&*bench.program).arg("sleep"));
    let mut sleeping = Box::pin(sleeping);
    let started = tokio::time::timeout(Duration::from_millis(500), &mut sleeping).await;
    ensure!(started.is_err(), "it does not sleep: {started:?}");
    let refused = sandbox.snapshot(folder.path().join("snapshot")).await;
    ensure!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    drop(sleeping);
    let snapshot = sandbox.snapshot(folder.path().join("snapshot")).await?;
    let copy = bench.sandboxes.restore(named(&bench, "copy"), snapshot).await?;
    copy.ping().await?;
    Ok(())
}

async fn apart(bench: Bench) -> Result<(), Failure> {
    let (sandbox, snapshot, _folder) = keep(&bench).await?;
    sandbox.delete().await;
    // A clock that is not set is behind by this much at least.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut dice = Vec::new();
    for name in ["first", "second"] {
        let copy = bench.sandboxes.restore(named(&bench, name), snapshot.clone()).await?;
        let before = now();
        let said = copy.exec(Program::new(&*bench.program).arg("clock-and-dice")).await?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let Some((clock, random)) = said.split_once(' ') else { return Err(fail(said)) };
        let clock: f64 = clock.parse()?;
        ensure!(clock > before - 1.0 && clock < now() + 1.0, "{clock} in place of {before}");
        dice.push(random.to_owned());
    }
    ensure!(dice[0] != dice[1], "both have {}", dice[0]);
    Ok(())
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

async fn other(bench: Bench) -> Result<(), Failure> {
    let (_, snapshot, _folder) = keep(&bench).await?;
    let image = named(&bench, "copy").image(Image::Base);
    let larger = named(&bench, "copy").memory(bench.spec().limits.memory + (64 << 20));
    for (spec, word) in [(image, "image"), (larger, "limits")] {
        let refused = bench.sandboxes.restore(spec, snapshot.clone()).await;
        let Err(Error::Snapshot { problem, .. }) = &refused else {
            return Err(fail(format!("{refused:?}")));
        };
        ensure!(problem.contains(word), "{problem}");
    }
    Ok(())
}
