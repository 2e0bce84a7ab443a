//! The files of a sandbox's workspace.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error, Sandbox,
    protocol::{
        MAX_MESSAGE, ProtocolError,
        message::{Entry, Fault, FaultCode, FileContents, GuestCommand},
    },
    sandbox::REPLY_TIMEOUT,
    session::{CloseReason, RequestError},
};

/// How many bytes a file may have that goes through the channel in one piece.
pub const MAX_FILE_SIZE: u64 = (MAX_MESSAGE as u64) / 2;

/// The files of a sandbox's workspace.
///
/// Paths are relative to `/workspace`, or start with it. None leads out, by `..` or by a link: links are not followed.
///
/// ```no_run
/// # async fn example(sandbox: &sandbox_vm::Sandbox) -> Result<(), sandbox_vm::Error> {
/// sandbox.fs().write("logs/i1.json", "[]").await?;
/// assert_eq!(sandbox.fs().read("/workspace/logs/i1.json").await?, b"[]");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> Files<'a> {
    pub(crate) fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox }
    }

    /// Reads a file of [`MAX_FILE_SIZE`] bytes at most.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let command = GuestCommand::Read { path: path.to_owned(), limit: MAX_FILE_SIZE };
        let FileContents { bytes } = self.sandbox.command(&command, REPLY_TIMEOUT).await?;
        if bytes.len() as u64 > MAX_FILE_SIZE {
            return Err(self.terminate_for_violation("more of a file than was asked for").await);
        }
        Ok(bytes)
    }

    /// Writes a file of [`MAX_FILE_SIZE`] bytes at most, and makes the folders around it.
    pub async fn write(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<(), Error> {
        let bytes = bytes.into();
        if bytes.len() as u64 > MAX_FILE_SIZE {
            let problem =
                format!("`{path}` would have more than {MAX_FILE_SIZE} bytes; write it in parts");
            return Err(self.refused(problem));
        }
        self.sandbox
            .command(&GuestCommand::Write { path: path.to_owned(), bytes }, REPLY_TIMEOUT)
            .await
    }

    /// Lists a folder, sorted by name; `""` is the workspace itself.
    ///
    /// No name leads out of a folder that it is joined to: a guest that gives one that does is taken down.
    pub async fn list(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let command = GuestCommand::List { path: path.to_owned() };
        let entries: Vec<Entry> = self.sandbox.command(&command, REPLY_TIMEOUT).await?;
        if entries.iter().any(|it| !is_entry_name(&it.name)) {
            return Err(self.terminate_for_violation("a list with a name that is none").await);
        }
        Ok(entries)
    }

    /// Removes a file, or a folder with all that is in it.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.sandbox.command(&GuestCommand::Remove { path: path.to_owned() }, REPLY_TIMEOUT).await
    }

    /// Reads a file as JSON.
    pub async fn read_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let bytes = self.read(path).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.refused(format!("`{path}` cannot be read as JSON: {error}")))
    }

    /// Writes a file as JSON, indented by two spaces.
    pub async fn write_json(&self, path: &str, value: &impl Serialize) -> Result<(), Error> {
        let bytes = serde_json::to_vec_pretty(value).map_err(|error| {
            self.refused(format!("`{path}` cannot be written as JSON: {error}"))
        })?;
        self.write(path, bytes).await
    }

    fn refused(&self, problem: String) -> Error {
        let fault = Fault::new(FaultCode::Refused, problem);
        Error::Guest { name: self.sandbox.name().to_owned(), fault }
    }

    /// Takes the guest down for an answer that it may not give.
    async fn terminate_for_violation(&self, rule: &'static str) -> Error {
        let reason = CloseReason::Protocol(ProtocolError::UnexpectedMessage(rule));
        self.sandbox.handle_failure(RequestError::Closed(reason)).await
    }
}

/// Whether this names an entry of a folder, and nothing elsewhere.
fn is_entry_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}
