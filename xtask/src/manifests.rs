use std::fs;
use std::path::Path;

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::{Result, root};

/// A command and macros have no signatures.
pub(crate) fn with_signatures() -> Result<Vec<String>> {
    let mut packages = published()?;
    packages.retain(|package| !["opaque-id-cli", "opaque-id-derive"].contains(&&**package));
    Ok(packages)
}

pub(crate) fn published() -> Result<Vec<String>> {
    Ok(published_of(root())?.into_iter().map(|it| it.name.to_string()).collect())
}

pub(crate) fn published_of(workspace: &Path) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().current_dir(workspace).no_deps().exec()?;
    Ok(metadata.packages.into_iter().filter(is_published).collect())
}

pub(crate) fn is_published(package: &Package) -> bool {
    package.source.is_none() && package.publish.is_none()
}

pub(crate) fn metadata() -> Result<Metadata> {
    let locked = vec!["--locked".to_owned()];
    Ok(MetadataCommand::new().current_dir(root()).other_options(locked).exec()?)
}

pub(crate) fn value(file: &str, key: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(file))?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
    Ok(value.ok_or_else(|| format!("{file} has no {key}"))?.trim().trim_matches('"').to_owned())
}
