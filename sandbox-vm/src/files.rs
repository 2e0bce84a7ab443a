//! Reads and writes the files of a sandbox's workspace.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, Sandbox,
    protocol::{
        MAX_MESSAGE, ProtocolError,
        message::{Entry, Fault, FaultCode, FileContents, GuestCommand},
    },
    session::{CloseReason, REPLY_TIMEOUT, RequestError},
};

/// Maximum size, in bytes, of a file that [`Files`] reads or writes.
pub const MAX_FILE_SIZE: u64 = (MAX_MESSAGE as u64) / 2;

/// Gives access to the files in a sandbox's workspace.
///
/// Paths are relative to `/workspace`, or absolute paths that start with it. No path can lead out of the workspace,
/// because `..` is refused and symbolic links are not followed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use sandbox_vm::{Isolation, backend::InProcess, guest::Agent};
/// # let dir = tempfile::tempdir()?;
/// # let sandboxes = sandbox_vm::Sandboxes::builder().backend(InProcess::new(Agent::new)).isolation(Isolation::Off);
/// # let sandboxes = sandboxes.state_dir(dir.path()).open().await?;
/// # let sandbox = sandboxes.create_if_not_exists(sandbox_vm::Spec::new("test")).await?;
/// sandbox.fs().write("logs/i1.json", "[]").await?;
/// assert_eq!(sandbox.fs().read("/workspace/logs/i1.json").await?, b"[]");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    sandbox: &'a Sandbox,
}

impl Sandbox {
    /// Returns an accessor for the files in the sandbox's workspace.
    pub fn fs(&self) -> Files<'_> {
        Files { sandbox: self }
    }
}

impl Files<'_> {
    /// Reads a file. Fails if the file is larger than [`MAX_FILE_SIZE`].
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let command = GuestCommand::Read { path: path.to_owned(), limit: MAX_FILE_SIZE };
        let FileContents { bytes } = self.sandbox.command(&command, REPLY_TIMEOUT).await?;
        if bytes.len() as u64 > MAX_FILE_SIZE {
            return Err(self.terminate_for_violation("more file content than was requested").await);
        }
        Ok(bytes)
    }

    /// Writes a file and creates missing parent directories. Fails if `bytes` is longer than [`MAX_FILE_SIZE`].
    pub async fn write(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        let bytes = bytes.into();
        if bytes.len() as u64 > MAX_FILE_SIZE {
            let problem = format!(
                "cannot write `{path}`: it has more than {MAX_FILE_SIZE} bytes; write it in parts"
            );
            return Err(self.refused(problem));
        }
        self.sandbox
            .command(&GuestCommand::Write { path: path.to_owned(), bytes }, REPLY_TIMEOUT)
            .await
    }

    /// Lists the entries of a directory, sorted by name. The path `""` denotes the workspace itself.
    ///
    /// The returned names are safe to join to a directory path: the guest is terminated if it sends a name that is
    /// empty, `.` or `..`, or that contains `/` or NUL.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let command = GuestCommand::List { path: path.to_owned() };
        let entries: Vec<Entry> = self.sandbox.command(&command, REPLY_TIMEOUT).await?;
        if entries.iter().any(|it| !is_entry_name(&it.name)) {
            return Err(self
                .terminate_for_violation("a directory entry with an invalid name")
                .await);
        }
        Ok(entries)
    }

    /// Deletes a file, or a directory with its contents.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.sandbox.command(&GuestCommand::Remove { path: path.to_owned() }, REPLY_TIMEOUT).await
    }

    /// Reads and parses a JSON file.
    pub async fn read_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.read(path).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.refused(format!("cannot read `{path}` as JSON: {error}")))
    }

    /// Writes a value as JSON, indented by two spaces.
    pub async fn write_json(&self, path: &str, value: &impl Serialize) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| self.refused(format!("cannot write `{path}` as JSON: {error}")))?;
        self.write(path, bytes).await
    }

    fn refused(&self, problem: String) -> Error {
        let fault = Fault::new(FaultCode::Refused, problem);
        Error::Guest { name: self.sandbox.name().to_owned(), fault }
    }

    /// Terminates the guest because its reply violates `rule`.
    async fn terminate_for_violation(&self, rule: &'static str) -> Error {
        let reason = CloseReason::Protocol(ProtocolError::UnexpectedMessage(rule));
        self.sandbox.handle_failure(RequestError::Closed(reason)).await
    }
}

/// Returns whether `name` is a single path component that cannot lead out of its directory.
fn is_entry_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}
