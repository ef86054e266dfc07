use core::fmt;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::file::{MAX_LEN, bytes};
use super::{Keyring, MasterSecret};
use crate::error::KeyringError;

/// A service or a key that unwraps secrets: a cloud's KMS, Vault's Transit engine, an HSM, age. The file of secrets is
/// wrapped by it (encrypted with a key that it keeps), so a copy of the file, in a backup or a repository, reveals nothing.
///
/// Implement it by a call of the service, or use [`UnwrapByCommand`].
///
/// ```
/// use opaque_id_core::Keyring;
/// use opaque_id_core::keyring::UnwrapSecrets;
/// use zeroize::Zeroizing;
/// # struct Client;
/// # impl Client {
/// #     fn decrypt(&self, key: &str, ciphertext: &[u8]) -> std::io::Result<Vec<u8>> { Ok(ciphertext.into()) }
/// # }
///
/// struct Kms {
///     client: Client, // of the service
///     key: String,
/// }
///
/// impl UnwrapSecrets for Kms {
///     fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
///         let plaintext = self.client.decrypt(&self.key, wrapped);
///         plaintext.map(Zeroizing::new).map_err(|error| error.to_string())
///     }
/// }
///
/// fn keyring(kms: &Kms) -> Result<Keyring, opaque_id_core::KeyringError> {
///     Keyring::from_wrapped_file("/etc/shop/opaque-id.wrapped", kms)
/// }
/// ```
pub trait UnwrapSecrets {
    /// Unwraps the bytes of a file: returns the text in the format of [`Keyring::from_file`].
    ///
    /// # Errors
    /// A message for the operator, without any secret.
    fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String>;
}

impl Keyring {
    /// Reads a file of wrapped secrets, and unwraps them. The file's mode is not checked, as it has no secret.
    ///
    /// # Errors
    /// As [`from_file`](Self::from_file), and [`KeyringError::Unwrap`].
    pub fn from_wrapped_file(
        path: impl AsRef<Path>,
        unwrap: &impl UnwrapSecrets,
    ) -> Result<Self, KeyringError> {
        let path = path.as_ref();
        let wrapped = bytes(path, |_| Ok(())).map_err(|fault| fault.into_error(path))?;
        let path = path.display().to_string();
        let source_name = MasterSecret::redact(&path);
        let failed = |message: &str| KeyringError::Unwrap {
            source_name: source_name.clone(),
            message: MasterSecret::redact(message),
        };
        let unwrapped = unwrap
            .unwrap_secrets(&wrapped)
            .map_err(|message| failed(&message))?;
        let text = str::from_utf8(&unwrapped)
            .map_err(|_| failed("expected text, found bytes that are not UTF-8"))?;
        Self::from_entries(&source_name, text)
    }
}

/// Unwraps secrets by a command, which gets the wrapped bytes on its standard input and writes the text to its standard
/// output: `age`, `sops`, `systemd-creds`, `vault`, a cloud's command line.
///
/// The command is run without a shell, and killed if it takes longer than its [`time_limit`](Self::time_limit).
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
    /// Names the program: a path, or a name to look for in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            time_limit: Duration::from_secs(30),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets how long the command may take, 30 seconds unless set. A service that does not answer is then an error that
    /// [`SharedKeyring::watch`](super::SharedKeyring::watch) reports, and not the end of what it follows.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }
}

impl UnwrapSecrets for UnwrapByCommand {
    fn unwrap_secrets(&self, wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let program = self.program.to_string_lossy();
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run `{program}`: {error}"))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(format!("`{program}` has no pipes"));
        };
        // A command may stop reading, or write before it has read all. Nobody waits for these threads, as a process that
        // the command has left behind may keep the pipes open.
        let wrapped = wrapped.to_owned();
        thread::spawn(move || stdin.write_all(&wrapped));
        let (send, unwrapped) = mpsc::channel();
        thread::spawn(move || send.send(read(stdout)));
        let (send, errors) = mpsc::channel();
        thread::spawn(move || send.send(read(stderr)));

        let start = Instant::now();
        let left = || self.time_limit.saturating_sub(start.elapsed());
        let unwrapped = unwrapped.recv_timeout(left());
        let is_too_long = unwrapped
            .as_ref()
            .is_ok_and(|unwrapped| unwrapped.len() > MAX_LEN);
        let status = end(&mut child, || is_too_long || left().is_zero())
            .map_err(|error| format!("cannot wait for `{program}`: {error}"))?;
        if is_too_long {
            return Err(format!(
                "`{program}` wrote more than {MAX_LEN} bytes, so these are not secrets"
            ));
        }
        match (unwrapped, status) {
            (Ok(unwrapped), Some(status)) if status.success() => Ok(unwrapped),
            (Ok(_), Some(status)) => {
                let errors = errors.recv_timeout(left()).unwrap_or_default();
                let message = String::from_utf8_lossy(&errors);
                Err(format!("`{program}` failed ({status}): {}", message.trim()))
            }
            _ => Err(format!(
                "`{program}` has not ended within {:?}, or left its output open",
                self.time_limit
            )),
        }
    }
}

/// Reads one byte more than secrets may have.
fn read(pipe: impl Read) -> Zeroizing<Vec<u8>> {
    // With room to spare it does not grow, which would leave a copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * MAX_LEN));
    let _ = pipe.take(MAX_LEN as u64 + 1).read_to_end(&mut bytes);
    bytes
}

/// Waits for a process, or kills it when its time is over.
fn end(child: &mut Child, is_over: impl Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_over() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Without the arguments, which may contain a secret.
impl fmt::Debug for UnwrapByCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwrapByCommand")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}
