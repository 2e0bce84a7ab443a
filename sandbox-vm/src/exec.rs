//! Runs programs in a sandbox.

mod host_cpu_clock;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use host_cpu_clock::HostCpuClock;

use crate::{
    Error, Sandbox,
    limits::{ExceededLimit, ExecLimits, Usage},
    protocol::{
        from_guest::OutputStream,
        message::{Exec, ExecResult, GuestCommand},
    },
    session::{Incoming, ReceiveWindow, RequestError},
};

/// Time that the guest has to reply after a program's wall-clock limit has passed, before the guest is considered dead.
const REPLY_GRACE: Duration = Duration::from_secs(60);

/// A program to run with [`Sandbox::exec`].
///
/// ```
/// use std::time::Duration;
/// use sandbox_vm::{
///     ExecLimits, Isolation, Program, Sandboxes, Spec, Status, backend::InProcess, guest::Agent,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // Not isolated, so that the example runs everywhere. For untrusted programs, use `Jail` or a stronger back end.
/// let sandboxes = Sandboxes::builder()
///     .backend(InProcess::new(Agent::new))
///     .isolation(Isolation::Off)
/// #   .state_dir(dir.path())
///     .open()
///     .await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("sort")).await?;
/// let sort = Program::new("sort")
///     .arg("-r")
///     .env("LC_ALL", "C")
///     .input("a\nb\n")
///     .limits(ExecLimits { wall: Duration::from_secs(60), ..ExecLimits::default() });
/// let output = sandbox.exec(sort).await?;
/// assert_eq!((output.status, &*output.stdout), (Status::Exited(0), &b"b\na\n"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Program {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    input: Vec<u8>,
    limits: Option<ExecLimits>,
}

impl Program {
    /// Creates a program from a path in the guest, or from a name that is looked up in `/usr/local/bin:/usr/bin:/bin`.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            input: Vec::new(),
            limits: None,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. By default, the environment contains only `PATH` and `HOME`.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// Sets the bytes that the program can read from standard input.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets limits for this program, which replace the sandbox's default limits for programs.
    pub fn limits(mut self, limits: ExecLimits) -> Self {
        self.limits = Some(limits);
        self
    }
}

/// The result of running a program.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Output {
    /// How the program ended.
    pub status: Status,
    /// Bytes that the program wrote to standard output, up to the output limit.
    pub stdout: Vec<u8>,
    /// Bytes that the program wrote to standard error, up to the output limit.
    pub stderr: Vec<u8>,
    /// Resources that the program used. If the program exceeded its memory limit, the reported memory is at least that
    /// limit.
    pub usage: Usage,
    /// Whether the program was isolated from the host.
    pub isolated: bool,
}

impl Output {
    /// Returns whether the program exited with code 0.
    pub fn success(&self) -> bool {
        self.status == Status::Exited(0)
    }
}

/// Output of a program whose sandbox ended before the program did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialOutput {
    /// Bytes that the program wrote to standard output.
    pub stdout: Vec<u8>,
    /// Bytes that the program wrote to standard error.
    pub stderr: Vec<u8>,
    /// Resources that the sandbox used, as measured by the host. If the sandbox exceeded its memory limit, the reported
    /// memory is at least that limit.
    pub usage: Usage,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The program exited with this code.
    Exited(i32),
    /// The program was killed by this signal.
    Killed(i32),
    /// The program exceeded a limit and was killed, or it failed after it had reached the limit.
    Limit(ExceededLimit),
}

impl Sandbox {
    /// Runs a program until it exits or exceeds a limit.
    ///
    /// Processes that the program leaves behind are killed when it ends, unless another program is running in the
    /// sandbox. If the sandbox as a whole exceeds a limit, for example because the guest's kernel runs out of memory,
    /// the error is [`Error::Terminated`].
    ///
    /// ```
    /// use sandbox_vm::Program;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use sandbox_vm::{Isolation, backend::InProcess, guest::Agent};
    /// # let dir = tempfile::tempdir()?;
    /// # let sandboxes = sandbox_vm::Sandboxes::builder().backend(InProcess::new(Agent::new)).isolation(Isolation::Off);
    /// # let sandboxes = sandboxes.state_dir(dir.path()).open().await?;
    /// # let sandbox = sandboxes.create_if_not_exists(sandbox_vm::Spec::new("test")).await?;
    /// let program = Program::new("sort").arg("-r").input("1\n2\n");
    /// let output = sandbox.exec(program).await?;
    /// assert!(output.success());
    /// assert_eq!(output.stdout, b"2\n1\n");
    /// # Ok(()) }
    /// ```
    pub async fn exec(&self, program: Program) -> Result<Output, Error> {
        self.exec_with_partial_output(program, &mut PartialOutput::default()).await
    }

    /// Like [`exec`](Self::exec), but if an error is returned, `partial` contains the output that the program wrote
    /// before its sandbox ended, and the resources that the sandbox used.
    pub async fn exec_with_partial_output(
        &self,
        program: Program,
        partial: &mut PartialOutput,
    ) -> Result<Output, Error> {
        *partial = PartialOutput::default();
        self.ensure_running()?;
        let busy = self.mark_busy().await;
        if busy.is_only_operation() && self.session().closed().is_none() {
            // Discard a limit that an earlier program exceeded, so that it is not attributed to this one. Such a limit
            // is left over if the caller of that program did not wait for the result. If the session is closed, the
            // limit explains why the guest died.
            self.take_exceeded_limit().await;
        }
        let mut limits = self.exec_limits(program.limits);
        let cpu_clock = HostCpuClock::start(self, &mut limits).await;
        let memory_limit = limits.memory.unwrap_or_default();
        let timeout = limits.wall.saturating_add(REPLY_GRACE);
        let window = ReceiveWindow::for_output(limits.output);
        let Program { program, args, env, input, .. } = program;
        let command = GuestCommand::Exec(Exec { program, args, env, input, limits });
        let started = Instant::now();
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(timeout, self.collect(&command, window, partial)) => match outcome {
                Ok(outcome) => outcome,
                Err(_) => Err(RequestError::Timeout(timeout)),
            },
            // Dropping the request above makes the guest kill the program.
            () = cpu_clock.until_exceeded(self) => Ok(ExecResult {
                code: None,
                signal: None,
                exceeded_limit: Some(ExceededLimit::CpuTime),
                usage: Usage { wall: started.elapsed(), ..Usage::default() },
            }),
        };
        match outcome {
            Ok(result) => {
                let status = self.exit_status(&result).await;
                let mut usage = result.usage;
                if let Some(cpu) = cpu_clock.elapsed(self).await {
                    usage.cpu = cpu;
                }
                if status == Status::Limit(ExceededLimit::Memory) {
                    // The guest only samples its memory and can miss the peak that ended the program. The host's kernel
                    // usually records that peak.
                    let peak = self.usage().await.unwrap_or_default().memory;
                    usage.memory = usage.memory.max(peak).max(memory_limit);
                }
                let PartialOutput { stdout, stderr, .. } = std::mem::take(partial);
                Ok(Output { status, stdout, stderr, usage, isolated: self.isolated() })
            }
            Err(error) => {
                // Measure now, because the measurements disappear with the guest.
                partial.usage = self.usage().await.unwrap_or_default();
                let error = self.handle_failure(error).await;
                if error.exceeded_limit() == Some(ExceededLimit::Memory) {
                    partial.usage.memory = partial.usage.memory.max(memory_limit);
                }
                Err(error)
            }
        }
    }

    /// Returns the limits for a program: its own limits or the sandbox's defaults, with memory and processes capped at
    /// the limits of the sandbox.
    fn exec_limits(&self, own: Option<ExecLimits>) -> ExecLimits {
        let limits = &self.spec().limits;
        let mut own = own.unwrap_or_else(|| limits.exec.clone());
        own.memory = Some(own.memory.unwrap_or(limits.memory).min(limits.memory));
        own.processes = Some(own.processes.unwrap_or(limits.processes).min(limits.processes));
        own
    }

    async fn collect(
        &self,
        command: &GuestCommand,
        window: ReceiveWindow,
        partial: &mut PartialOutput,
    ) -> Result<ExecResult, RequestError> {
        let mut exchange = self.session().start(command, window).await?;
        loop {
            match exchange.next().await.map_err(RequestError::Closed)? {
                Incoming::Output(OutputStream::Stdout, bytes) => partial.stdout.extend(bytes),
                Incoming::Output(OutputStream::Stderr, bytes) => partial.stderr.extend(bytes),
                Incoming::Reply(payload) => return Ok(self.session().decode_reply(&payload)?),
                Incoming::Failure(fault) => return Err(RequestError::Fault(fault)),
                Incoming::Event(_) | Incoming::HostCall(..) => {
                    self.session().close_for_violation("an event or a host call for a program");
                }
            }
        }
    }

    /// Determines how a program ended. The guest reports the exit status, but only the host's kernel knows whether it
    /// has killed a process of the guest's control group.
    async fn exit_status(&self, result: &ExecResult) -> Status {
        // Read the exceeded limit even if it is not needed. Reading clears it, and a limit that this program exceeded
        // must not be attributed to the next program.
        let observed = self.take_exceeded_limit().await;
        match (result.exceeded_limit, result.code, result.signal) {
            (Some(cause), ..) => Status::Limit(cause),
            (None, Some(0), _) => Status::Exited(0),
            (None, code, signal) => match (observed, code, signal) {
                (Some(cause), ..) => Status::Limit(cause),
                (None, Some(code), _) => Status::Exited(code),
                (None, None, Some(signal)) => Status::Killed(signal),
                (None, None, None) => Status::Killed(9),
            },
        }
    }
}
