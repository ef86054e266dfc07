//! `opaque-id`: see the crate's README.

mod args;
mod audit;
mod commands;
mod conformance;
mod engines;
mod files;
mod functions;
mod init;
mod lines;
mod output;
mod packs;
mod resource;
mod resources;
mod rotation;
mod secrets;
mod source;
mod sqlx_toml;
mod subkeys;

use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use opaque_id_core::MasterSecret;

fn main() -> ExitCode {
    let done = match args::Args::try_parse() {
        Ok(args) => commands::run(args),
        Err(error) => reject(&error).map_err(Into::into),
    };
    match done {
        Ok(exit) => exit,
        // The reader closed the pipe, as in `opaque-id … | head`.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            // Control characters must not reach the terminal, nor hide a secret by splitting it.
            let error = MasterSecret::redact(&escaped(&with_causes(&*error)));
            let _ =
                writeln!(anstream::stderr(), "{}error:{} {error}", style::ERROR, anstyle::Reset);
            ExitCode::from(2)
        }
    }
}

/// A cause is omitted if the message before it ends with it, because some libraries repeat a cause that they
/// also return as the source.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |message, cause| {
        let cause = cause.to_string();
        if message.ends_with(&cause) { message } else { format!("{message}: {cause}") }
    })
}

/// Such characters hide or reorder other text in a terminal.
pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(crate) fn escaped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => c.to_string(),
            c if is_invisible(c) => c.escape_debug().to_string(),
            c => c.to_string(),
        })
        .collect()
}

/// Nothing is printed with a misplaced secret.
fn reject(error: &clap::Error) -> io::Result<ExitCode> {
    let shown = error.render();
    let ansi = shown.ansi().to_string();
    // Colors could split the digits of a secret.
    let plain = shown.to_string();
    let redacted = MasterSecret::redact(&plain);
    let text = if redacted == plain { ansi } else { redacted };
    if error.use_stderr() {
        let _ = write!(anstream::stderr(), "{text}");
    } else {
        write!(anstream::stdout(), "{text}")?;
    }
    Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}

mod style {
    use anstyle::{AnsiColor, Style};

    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_does_not_show_are_escaped() {
        assert_eq!(
            escaped("a\u{1b}[31m\u{202e}b\n\u{feff}é"),
            "a\\u{1b}[31m\\u{202e}b\n\\u{feff}é"
        );
    }

    #[derive(Debug, thiserror::Error)]
    enum Failed {
        #[error("cannot read the schema")]
        Plain(#[source] Box<Failed>),
        #[error("no answer: {0}")]
        Repeating(#[source] Box<Failed>),
        #[error("connection refused")]
        Cause,
    }

    #[test]
    fn each_cause_is_printed_once() {
        let error = Failed::Plain(Box::new(Failed::Repeating(Box::new(Failed::Cause))));
        assert_eq!(with_causes(&error), "cannot read the schema: no answer: connection refused");
    }
}
