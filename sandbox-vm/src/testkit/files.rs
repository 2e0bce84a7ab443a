//! Files of the workspace, and the tricks to get out by them.

use super::{Check, Failure, TestContext, check, ensure, hostile};
use crate::{EntryKind, Error, Program, Status, protocol::message::FaultCode};

pub(super) const CHECKS: &[Check] = &[
    check!("fs: files are written, read, listed and removed", round_trip),
    check!("fs: programs and the host see the same files", [Programs], shared),
    check!("fs: no path leads out", paths),
    check!("fs: no link that the guest makes leads out", [Programs], links),
    check!("fs: a large file goes through", large),
    check!("fs: a folder of the host is shown, to read only", [Programs, SharedDirectories], shown),
];

async fn round_trip(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let fs = sandbox.fs();
    let turns = serde_json::json!([{ "role": "for", "text": "é" }]);
    fs.write_json("/workspace/logs/i1.json", &turns).await?;
    ensure!(
        fs.read_json::<serde_json::Value>("logs/i1.json").await? == turns,
        "another value came back"
    );
    let entries = fs.list("logs").await?;
    ensure!(entries.len() == 1 && entries[0].kind == EntryKind::File, "{entries:?}");
    fs.remove("logs").await?;
    let gone = fs.read("logs/i1.json").await;
    ensure!(gone.as_ref().is_err_and(Error::is_not_found), "{gone:?}");
    Ok(())
}

async fn shared(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    sandbox.fs().write("in.txt", "from the host").await?;
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "read", "in.txt"])).await?;
    ensure!(output.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()), "{output:?}");
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "write", "out.txt"])).await?;
    ensure!(output.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()), "{output:?}");
    ensure!(sandbox.fs().read("out.txt").await?.is_empty(), "the file is not there");
    Ok(())
}

async fn paths(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    for path in ["../x", "/etc/passwd", "a/../../x", "/workspace/../etc/passwd", "", "/"] {
        let read = sandbox.fs().read(path).await.map(drop);
        let write = sandbox.fs().write(path, "x").await;
        for outcome in [read, write] {
            let held = matches!(&outcome, Err(Error::Guest { fault, .. }) if fault.code == FaultCode::InvalidPath);
            ensure!(held, "`{path}`: {outcome:?}");
        }
    }
    Ok(())
}

async fn links(cx: TestContext) -> Result<(), Failure> {
    // Suites of several back ends run at once.
    let name = format!("sandbox-vm-secret-{}", graph_core::checkpoint::CheckpointId::next());
    let dir = std::env::temp_dir().join(name);
    std::fs::write(&dir, "secret of the host")?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    let path = dir.display().to_string();
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "link-out", &path])).await?;
    if cx.capabilities.is_isolated() {
        ensure!(output.success(), "{output:?}");
    }
    let host_file = format!("folder{path}");
    for path in ["link", &host_file, "up/etc/passwd", "folder/etc/passwd"] {
        let outcome = sandbox.fs().read(path).await;
        ensure!(outcome.is_err(), "`{path}` was followed");
        let outcome = sandbox.fs().write(path, "owned").await;
        ensure!(outcome.is_err(), "`{path}` was followed");
    }
    ensure!(std::fs::read(&dir)? == b"secret of the host", "the host's file was changed");
    std::fs::remove_file(&dir)?;
    Ok(())
}

async fn large(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let bytes: Vec<u8> = (0..20 << 20).map(|it: u32| (it % 251) as u8).collect();
    sandbox.fs().write("large", bytes.clone()).await?;
    ensure!(sandbox.fs().read("large").await? == bytes, "other bytes came back");
    Ok(())
}

async fn shown(cx: TestContext) -> Result<(), Failure> {
    use std::{fs, os::unix::fs::PermissionsExt};
    let name = format!("sandbox-vm-shown-{}", graph_core::checkpoint::CheckpointId::next());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
    let put = |name: &str| {
        fs::write(dir.join(name), "the host's")?;
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o666))
    };
    put("sooner")?;
    let sandbox = cx.sandbox(cx.spec().shared_dir("shown", &dir)).await?;
    put("later")?;
    let attempt = async |way: &str, path: &str| {
        let program = Program::new(&*cx.program).args(["try", way, path]);
        Ok::<_, Failure>(sandbox.exec(program).await?)
    };
    for file in ["/shown/sooner", "/shown/later"] {
        let read = attempt("read", file).await?;
        ensure!(
            read.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()),
            "{file}: {read:?}"
        );
    }
    for file in ["/shown/sooner", "/shown/later", "/shown/new"] {
        let written = attempt("write", file).await?;
        ensure!(written.success(), "{file}: {written:?}");
    }
    ensure!(fs::read(dir.join("sooner"))? == b"the host's", "the host's file was changed");
    fs::remove_dir_all(&dir)?;
    Ok(())
}
