use std::fmt;
use std::io::{self, BufRead, Read};

/// Longer lines are rejected without being stored.
const MAX_LEN: usize = 64 * 1024;
const TOO_LONG: &str = "longer than 64 KiB";

#[derive(Clone, Copy)]
pub(crate) enum Place {
    Argument(usize),
    Line(u64),
    /// A row of a table. The value names the table.
    Row,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(number) => write!(f, "argument {number}"),
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row => f.write_str("row"),
        }
    }
}

/// Calls `each` with `Err` for an invalid line. Skips blank lines.
pub(crate) fn for_each(
    values: &[String],
    mut each: impl FnMut(Place, Result<&str, &'static str>) -> io::Result<()>,
) -> io::Result<()> {
    for (i, value) in values.iter().enumerate() {
        if value == "-" {
            lines(&mut io::stdin().lock(), &mut each)?;
        } else {
            let value = if value.len() <= MAX_LEN { Ok(&**value) } else { Err(TOO_LONG) };
            each(Place::Argument(i + 1), value)?;
        }
    }
    Ok(())
}

fn lines(
    input: &mut impl BufRead,
    each: &mut impl FnMut(Place, Result<&str, &'static str>) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.by_ref().take(MAX_LEN as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let value = if is_whole || line.len() <= MAX_LEN {
            str::from_utf8(line.trim_ascii_end()).map_err(|_| "invalid UTF-8")
        } else {
            input.skip_until(b'\n')?;
            Err(TOO_LONG)
        };
        if value != Ok("") {
            each(Place::Line(number), value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_invalid_lines_are_rejected_and_the_rest_is_read() {
        let mut input = Vec::from(b"one\r\n\n\xff\n" as &[u8]);
        input.extend(vec![b'x'; 1_000_000]);
        input.extend(b"\nlast");
        let mut seen = Vec::new();
        lines(&mut &input[..], &mut |place, value| {
            seen.push(format!("{place}: {value:?}"));
            Ok(())
        })
        .expect("reads");
        assert_eq!(
            seen,
            [
                "line 1: Ok(\"one\")",
                "line 3: Err(\"invalid UTF-8\")",
                "line 4: Err(\"longer than 64 KiB\")",
                "line 5: Ok(\"last\")",
            ],
        );
    }
}
