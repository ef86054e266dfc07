//! Unwraps secrets by a command.

use core::error::Error;
use core::{fmt, mem};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use super::file::MAX_LEN;
use super::{ENV_VARIABLE, UnwrapSecrets};

/// Unwraps secrets by a command such as `age`, `sops`, `systemd-creds` or `vault`. It reads the wrapped bytes
/// from its standard input and writes the text to its standard output.
///
/// It runs without a shell, in its own process group and without the variable `OPAQUE_ID_KEYS`. After its
/// [`time_limit`](Self::time_limit), the group is killed. Processes that it leaves running, such as an agent,
/// do not delay the result. Its standard error is the application's.
///
/// If the application ignores the signal `SIGCHLD`, the command's status is unknown, and its output counts.
///
/// ```no_run
/// use opaque_id_core::Keyring;
/// use opaque_id_core::keyring::UnwrapByCommand;
///
/// // age --encrypt --recipient age1… --output opaque-id.age keys
/// let age = UnwrapByCommand::new("age").args(["--decrypt", "--identity", "/etc/shop/age.key"]);
/// let keyring = Keyring::from_wrapped_file("opaque-id.age", &age)?;
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
#[derive(Clone)]
pub struct UnwrapByCommand {
    program: OsString,
    args: Vec<OsString>,
    time_limit: Duration,
}

impl UnwrapByCommand {
    /// Sets the program: a path, or a name to look for in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), time_limit: Duration::from_secs(30) }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets the time limit of the command, by default 30 seconds. Beyond it, the command is killed, and
    /// reading fails.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }
}

impl UnwrapSecrets for UnwrapByCommand {
    fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let program = self.program.to_string_lossy();
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_remove(ENV_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot run `{program}`: {error}"))?;
        let end = run(&mut child, wrapped, self.time_limit);
        if !matches!(end, Ok(End::Exited(..))) {
            // The call fails if the process has already ended.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
        }
        let failed = match end {
            Ok(End::Exited(mut output, status)) => match status {
                Some(status) if !status.success() => {
                    format!("`{program}` failed ({status}): its standard error says why")
                }
                _ => return Ok(mem::take(&mut *output)),
            },
            Ok(End::TooLong) => {
                format!("`{program}` wrote more than {MAX_LEN} bytes, so these are not secrets")
            }
            Ok(End::TimeOver) => {
                format!("`{program}` has not ended within {:?}", self.time_limit)
            }
            Err(error) => format!("cannot run `{program}`: {error}"),
        };
        Err(failed.into())
    }
}

enum End {
    /// The status is `None` if the application ignores `SIGCHLD`.
    Exited(Zeroizing<Vec<u8>>, Option<ExitStatus>),
    TooLong,
    TimeOver,
}

/// Exchanges input and output without blocking. A command may stop reading, write before it has read all, or
/// leave a process behind that keeps the pipes open.
fn run(child: &mut Child, mut input: &[u8], limit: Duration) -> io::Result<End> {
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut stdout = stdout.ok_or(ErrorKind::BrokenPipe)?;
    ioctl_fionbio(&stdout, true)?;
    if let Some(stdin) = &stdin {
        ioctl_fionbio(stdin, true)?;
    }
    let start = Instant::now();
    // Growing would leave a copy behind.
    let mut output = Zeroizing::new(vec![0; MAX_LEN + 1]);
    let mut len = 0;
    loop {
        // This precedes the reading, so that all output before the end is read.
        let exited = exited(child)?;
        match stdin.as_mut().map(|stdin| stdin.write(input)) {
            Some(Ok(written)) => input = &input[written..],
            Some(Err(error)) if is_later(&error) => {}
            _ => input = &[],
        }
        if input.is_empty() {
            stdin = None;
        }
        loop {
            match stdout.read(&mut output[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if len > MAX_LEN {
            return Ok(End::TooLong);
        }
        if let Some(status) = exited {
            output.truncate(len);
            return Ok(End::Exited(output, status));
        }
        if start.elapsed() >= limit {
            return Ok(End::TimeOver);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn exited(child: &mut Child) -> io::Result<Option<Option<ExitStatus>>> {
    match child.try_wait() {
        Ok(status) => Ok(status.map(Some)),
        Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => Ok(Some(None)),
        Err(error) => Err(error),
    }
}

/// Omits the arguments because they may contain a secret.
impl fmt::Debug for UnwrapByCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwrapByCommand").field("program", &self.program).finish_non_exhaustive()
    }
}
