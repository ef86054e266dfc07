//! The audit log of `opaque-id open`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use opaque_id_core::MasterSecret;
use serde::Serialize;

use crate::output::{json, shown};
use crate::resource::{Opened, Resource, Resources};
use crate::with_causes;

pub(crate) struct AuditLog {
    path: PathBuf,
    file: File,
    /// A line break after a line that a full disk has cut off.
    start: &'static str,
    user: User,
}

/// The names come from the environment, the uid from the kernel.
#[derive(Serialize)]
struct User {
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sudo_user: Option<String>,
}

/// The line omits the internal key, because the log would otherwise be the dictionary of ids that sealing
/// prevents.
#[derive(Serialize)]
struct Line<'l> {
    time: Timestamp,
    #[serde(flatten)]
    user: &'l User,
    id: &'l str,
    resource: Option<&'l str>,
    /// The domain shows which rows were read, even if the author of a file of resources renames them.
    domain: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<&'l str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl AuditLog {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path);
        let file = file.map_err(|error| {
            format!("nothing was opened: cannot open the audit log {}: {error}", path.display())
        })?;
        let start = if is_cut(path) { "\n" } else { "" };
        Ok(Self { path: path.to_owned(), file, start, user: User::current() })
    }

    /// An error ends the command, because the answer must not be shown then.
    pub(crate) fn write(
        &mut self,
        id: &str,
        resources: &Resources,
        audience: Option<&str>,
        answer: Result<&(Opened, &Resource), &dyn Error>,
    ) -> io::Result<()> {
        let (resource, outcome, key_id) = match answer {
            Ok((opened, resource)) => (Some(*resource), "opened", Some(opened.key_id.get())),
            Err(_) => (resources.given(), "refused", None),
        };
        let settings = resource.map(|resource| &resource.settings);
        let id = shown(id);
        let start = std::mem::take(&mut self.start);
        let line = json(&Line {
            time: Timestamp::now(),
            user: &self.user,
            id: &id,
            resource: settings.map(|settings| &*settings.prefix),
            domain: settings.map(|settings| &*settings.domain),
            audience,
            resources: resources.file.as_deref(),
            outcome,
            key_id,
            reason: answer.err().map(|error| MasterSecret::redact(&with_causes(error))),
        })?;
        let line = format!("{start}{line}\n");
        // One call keeps lines whole if several processes write at the same time.
        let written = self.file.write(line.as_bytes()).and_then(|len| match len == line.len() {
            true => Ok(()),
            false => Err(io::Error::other("only a part of a line was written")),
        });
        // The kind of a closed pipe would count as success.
        written.map_err(|error| {
            let path = self.path.display();
            io::Error::other(format!(
                "{id} was not opened: cannot write the audit log {path}: {error}"
            ))
        })
    }
}

/// An unreadable file counts as complete.
fn is_cut(path: &Path) -> bool {
    let last = || {
        let mut last = [0];
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        io::Result::Ok(last)
    };
    let is_cut = || last().is_ok_and(|last| last != *b"\n");
    // Opening a pipe would wait for a writer. Another process may be writing a line.
    path.is_file() && is_cut() && {
        thread::sleep(Duration::from_millis(50));
        is_cut()
    }
}

impl User {
    fn current() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            user: ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(variable),
            #[cfg(unix)]
            uid: Some(rustix::process::getuid().as_raw()),
            #[cfg(not(unix))]
            uid: None,
            sudo_user: variable("SUDO_USER"),
        }
    }
}
