//! Checks access to the workspace, and checks that attempts to escape from it through paths and links fail.

use sandbox_vm::{EntryKind, Error, FaultCode, Program, Status};

use crate::{
    check::{Check, Failure, TestContext, check, ensure},
    hostile,
};

pub(crate) const CHECKS: &[Check] = &[
    check!("fs: files can be written, read, listed and deleted", round_trip),
    check!("fs: programs and the host see the same files", [Programs], shared),
    check!("fs: no path leaves the workspace", paths).in_shared_guest(),
    check!("fs: no link made by the guest leaves the workspace", [Programs], links)
        .in_shared_guest(),
    check!("fs: large files can be transferred", large),
    check!(
        "fs: a directory of the host can be shared read-only",
        [Programs, SharedDirectories],
        shared_dir
    ),
];

async fn round_trip(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let fs = sandbox.fs();
    let turns = serde_json::json!([{ "role": "for", "text": "é" }]);
    fs.write_json("/workspace/logs/i1.json", &turns).await?;
    ensure!(
        fs.read_json::<serde_json::Value>("logs/i1.json").await? == turns,
        "a different value was read back"
    );
    let entries = fs.list("logs").await?;
    ensure!(entries.len() == 1 && entries[0].kind == EntryKind::File, "{entries:?}");
    fs.remove("logs").await?;
    let deleted = fs.read("logs/i1.json").await;
    ensure!(deleted.as_ref().is_err_and(Error::is_not_found), "{deleted:?}");
    Ok(())
}

async fn shared(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    sandbox.fs().write("in.txt", "from the host").await?;
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "read", "in.txt"])).await?;
    ensure!(output.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()), "{output:?}");
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "write", "out.txt"])).await?;
    ensure!(output.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()), "{output:?}");
    ensure!(sandbox.fs().read("out.txt").await?.is_empty(), "the file is not empty");
    Ok(())
}

async fn paths(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    for path in ["../x", "/etc/passwd", "a/../../x", "/workspace/../etc/passwd", "", "/"] {
        let read = sandbox.fs().read(path).await.map(drop);
        let write = sandbox.fs().write(path, "x").await;
        for outcome in [read, write] {
            let refused = matches!(&outcome, Err(Error::Guest { fault, .. }) if fault.code == FaultCode::InvalidPath);
            ensure!(refused, "`{path}`: {outcome:?}");
        }
    }
    Ok(())
}

async fn links(cx: TestContext) -> Result<(), Failure> {
    // The name is unique because the suites of several back ends may run concurrently.
    let name = format!("sandbox-vm-secret-{}", graph_core::checkpoint::CheckpointId::next());
    let secret = std::env::temp_dir().join(name);
    std::fs::write(&secret, "secret of the host")?;
    let sandbox = cx.sandbox(cx.spec()).await?;
    let path = secret.display().to_string();
    let output = sandbox.exec(Program::new(&*cx.program).args(["try", "link-out", &path])).await?;
    if cx.capabilities.is_isolated() {
        ensure!(output.success(), "{output:?}");
    }
    let host_file = format!("root{path}");
    for path in ["link", &host_file, "up/etc/passwd", "root/etc/passwd"] {
        let outcome = sandbox.fs().read(path).await;
        ensure!(outcome.is_err(), "`{path}` was followed");
        let outcome = sandbox.fs().write(path, "owned").await;
        ensure!(outcome.is_err(), "`{path}` was followed");
    }
    ensure!(std::fs::read(&secret)? == b"secret of the host", "the host's file was changed");
    std::fs::remove_file(&secret)?;
    for link in ["link", "root", "up"] {
        sandbox.fs().remove(link).await?;
    }
    Ok(())
}

async fn large(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let bytes: Vec<u8> = (0..20 << 20).map(|it: u32| (it % 251) as u8).collect();
    sandbox.fs().write("large", bytes.clone()).await?;
    ensure!(sandbox.fs().read("large").await? == bytes, "different bytes were read back");
    Ok(())
}

async fn shared_dir(cx: TestContext) -> Result<(), Failure> {
    use std::{fs, os::unix::fs::PermissionsExt};
    let name = format!("sandbox-vm-shared-{}", graph_core::checkpoint::CheckpointId::next());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
    let put = |name: &str| {
        fs::write(dir.join(name), "the host's")?;
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o666))
    };
    put("before")?;
    let sandbox = cx.sandbox(cx.spec().shared_dir("shared", &dir)).await?;
    put("after")?;
    let attempt = async |operation: &str, path: &str| {
        let program = Program::new(&*cx.program).args(["try", operation, path]);
        Ok::<_, Failure>(sandbox.exec(program).await?)
    };
    for file in ["/shared/before", "/shared/after"] {
        let read = attempt("read", file).await?;
        ensure!(
            read.status == Status::Exited(hostile::ATTEMPT_SUCCEEDED.into()),
            "{file}: {read:?}"
        );
    }
    for file in ["/shared/before", "/shared/after", "/shared/new"] {
        let written = attempt("write", file).await?;
        ensure!(written.success(), "{file}: {written:?}");
    }
    ensure!(fs::read(dir.join("before"))? == b"the host's", "the host's file was changed");
    fs::remove_dir_all(&dir)?;
    Ok(())
}
