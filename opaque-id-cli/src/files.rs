//! Files, with errors that name them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Writes a file whole or not at all. Anything but a regular file, such as a pipe or a link, is written in
/// place. The system refuses other users' links in a shared folder such as /tmp, but it would let us replace
/// their files.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    let write = || match file.symlink_metadata() {
        Ok(found) if !found.is_file() => std::fs::write(file, text),
        _ => replace(file, text),
    };
    write().map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let builder = tempfile::Builder::new();
    // The file gets the mode of any new file.
    let mut written =
        builder.make_in(folder.unwrap_or(Path::new(".")), |path| File::create_new(path))?;
    if let Ok(old) = file.symlink_metadata() {
        written.as_file().set_permissions(old.permissions())?;
    }
    written.write_all(text.as_bytes())?;
    written.persist(file)?;
    Ok(())
}
