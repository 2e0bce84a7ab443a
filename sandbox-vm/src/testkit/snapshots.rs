//! Snapshots, for back ends that have them.

use std::time::{Duration, SystemTime};

use super::{Check, Failure, TestContext, check, ensure, fail};
use crate::{Error, Image, Program, Sandbox, Spec, backend::Snapshot};

pub(super) const CHECKS: &[Check] = &[
    check!("snapshot: the files come back, and the sandbox itself goes on", [Snapshot], files),
    check!("snapshot: what was under way is refused, and later it is not", [Snapshot], busy),
    check!(
        "snapshot: two guests of one have different randomness and the right time",
        [Snapshot],
        fresh_clock_and_random
    ),
    check!("snapshot: one of another image or of other limits is refused", [Snapshot], mismatched),
];

/// A sandbox with a file in it, its snapshot, and the folder that the snapshot is removed with.
async fn take_snapshot(
    cx: &TestContext,
) -> Result<(Sandbox, Snapshot, tempfile::TempDir), Failure> {
    let dir = tempfile::tempdir()?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    sandbox.fs().write("notes/kept", "before").await?;
    let snapshot = sandbox.snapshot(dir.path().join("snapshot")).await?;
    Ok((sandbox, snapshot, dir))
}

fn named(cx: &TestContext, name: &str) -> Spec {
    Spec { name: name.to_owned(), ..cx.spec() }
}

async fn files(cx: TestContext) -> Result<(), Failure> {
    let (sandbox, snapshot, _dir) = take_snapshot(&cx).await?;
    sandbox.fs().write("notes/later", "after").await?;
    let copy = cx.sandboxes.restore(named(&cx, "copy"), snapshot.clone()).await?;
    ensure!(copy.fs().read("notes/kept").await? == b"before", "another file came back");
    let later = copy.fs().read("notes/later").await;
    ensure!(later.as_ref().is_err_and(Error::is_not_found), "{later:?}");
    let output = copy.exec(Program::new(&*cx.program).args(["say", "alive", ""])).await?;
    ensure!(output.stdout == b"alive", "{output:?}");
    // A name is taken while its sandbox lives, and the two are two.
    let again = cx.sandboxes.restore(named(&cx, "copy"), snapshot).await;
    ensure!(matches!(again, Err(Error::BadSpec { .. })), "{again:?}");
    copy.fs().remove("notes").await?;
    ensure!(sandbox.fs().read("notes/later").await? == b"after", "the copy reaches the original");
    Ok(())
}

async fn busy(cx: TestContext) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    let sleeping = sandbox.exec(Program::new(&*cx.program).arg("sleep"));
    let mut sleeping = Box::pin(sleeping);
    let started = tokio::time::timeout(Duration::from_millis(500), &mut sleeping).await;
    ensure!(started.is_err(), "it does not sleep: {started:?}");
    let refused = sandbox.snapshot(dir.path().join("snapshot")).await;
    ensure!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    drop(sleeping);
    let snapshot = sandbox.snapshot(dir.path().join("snapshot")).await?;
    let copy = cx.sandboxes.restore(named(&cx, "copy"), snapshot).await?;
    copy.ping().await?;
    Ok(())
}

async fn fresh_clock_and_random(cx: TestContext) -> Result<(), Failure> {
    let (sandbox, snapshot, _dir) = take_snapshot(&cx).await?;
    sandbox.delete().await;
    // A clock that is not set is behind by this much at least.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut numbers = Vec::new();
    for name in ["first", "second"] {
        let copy = cx.sandboxes.restore(named(&cx, name), snapshot.clone()).await?;
        let before = now();
        let output = copy.exec(Program::new(&*cx.program).arg("clock-and-random")).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((clock, random)) = text.split_once(' ') else { return Err(fail(text)) };
        let clock: f64 = clock.parse()?;
        ensure!(clock > before - 1.0 && clock < now() + 1.0, "{clock} in place of {before}");
        numbers.push(random.to_owned());
    }
    ensure!(numbers[0] != numbers[1], "both have {}", numbers[0]);
    Ok(())
}

fn now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

async fn mismatched(cx: TestContext) -> Result<(), Failure> {
    let (_, snapshot, _dir) = take_snapshot(&cx).await?;
    let image = named(&cx, "copy").image(Image::Base);
    let larger = named(&cx, "copy").memory(cx.spec().limits.memory + (64 << 20));
    for (spec, word) in [(image, "image"), (larger, "limits")] {
        let refused = cx.sandboxes.restore(spec, snapshot.clone()).await;
        let Err(Error::Snapshot { problem, .. }) = &refused else {
            return Err(fail(format!("{refused:?}")));
        };
        ensure!(problem.contains(word), "{problem}");
    }
    Ok(())
}
