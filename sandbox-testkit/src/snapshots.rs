//! Checks snapshots on back ends that support them.

use std::time::{Duration, SystemTime};

use sandbox_vm::{Error, Image, Program, Sandbox, Spec, backend::Snapshot};

use crate::check::{Check, Failure, TestContext, check, ensure, fail};

pub(crate) const CHECKS: &[Check] = &[
    check!("snapshot: files are restored, and the original sandbox continues", [Snapshot], files),
    check!("snapshot: a busy sandbox is refused, and accepted later", [Snapshot], busy),
    check!(
        "snapshot: guests restored from one snapshot differ in random state and have the current time",
        [Snapshot],
        fresh_clock_and_random
    ),
    check!("snapshot: a different image or different limits are refused", [Snapshot], mismatched),
];

/// Creates a sandbox, writes a file in it and takes a snapshot. Dropping the returned directory deletes the snapshot.
async fn take_snapshot(
    cx: &TestContext,
) -> Result<(Sandbox, Snapshot, tempfile::TempDir), Failure> {
    let dir = tempfile::tempdir()?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    sandbox.fs().write("notes/earlier", "before").await?;
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
    ensure!(
        copy.fs().read("notes/earlier").await? == b"before",
        "different contents were restored"
    );
    let later = copy.fs().read("notes/later").await;
    ensure!(later.as_ref().is_err_and(Error::is_not_found), "{later:?}");
    let output = copy.exec(Program::new(&*cx.program).args(["say", "alive", ""])).await?;
    ensure!(output.stdout == b"alive", "{output:?}");
    // Restoring is refused while a live sandbox has the same name. Changes in the copy do not affect the original.
    let again = cx.sandboxes.restore(named(&cx, "copy"), snapshot).await;
    ensure!(matches!(again, Err(Error::BadSpec { .. })), "{again:?}");
    copy.fs().remove("notes").await?;
    ensure!(sandbox.fs().read("notes/later").await? == b"after", "the copy changed the original");
    Ok(())
}

async fn busy(cx: TestContext) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    let sleeping = sandbox.exec(Program::new(&*cx.program).arg("sleep"));
    let mut sleeping = Box::pin(sleeping);
    let started = tokio::time::timeout(Duration::from_millis(500), &mut sleeping).await;
    ensure!(started.is_err(), "the program did not sleep: {started:?}");
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
    // Wait, so that the clock of a restored guest is at least this far behind unless the restore sets the clock.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut numbers = Vec::new();
    for name in ["first", "second"] {
        let copy = cx.sandboxes.restore(named(&cx, name), snapshot.clone()).await?;
        let before = now();
        let output = copy.exec(Program::new(&*cx.program).arg("clock-and-random")).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let Some((clock, random)) = text.split_once(' ') else { return Err(fail(text)) };
        let clock: f64 = clock.parse()?;
        // On a busy machine, the guest may receive the time late, and its clock is then behind.
        ensure!(
            clock > before - 4.0 && clock < now() + 1.0,
            "the clock is {clock}, expected about {before}"
        );
        numbers.push(random.to_owned());
    }
    ensure!(numbers[0] != numbers[1], "both guests returned {}", numbers[0]);
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
