//! The part of SQLite's grammar that changes a column's type in a `CREATE TABLE` statement.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Space,
    Word,
    Quoted,
    Sign(char),
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

/// Returns `None` if a quote or a comment does not end.
pub(crate) fn tokens(sql: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let (kind, len) = match first {
            '\'' | '"' | '`' => (TokenKind::Quoted, quoted(rest, first)?),
            '[' => (TokenKind::Quoted, rest.find(']')? + 1),
            '-' if rest.starts_with("--") => {
                (TokenKind::Space, rest.find('\n').unwrap_or(rest.len()))
            }
            '/' if rest.starts_with("/*") => (TokenKind::Space, 2 + rest[2..].find("*/")? + 2),
            c if c.is_whitespace() => (TokenKind::Space, c.len_utf8()),
            c if is_word(c) => (TokenKind::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            c => (TokenKind::Sign(c), c.len_utf8()),
        };
        tokens.push(Token { kind, range: at..at + len });
        at += len;
    }
    Some(tokens)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// A doubled quote is part of the text.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    loop {
        at += rest[at..].find(quote)? + 1;
        match rest[at..].starts_with(quote) {
            true => at += 1,
            false => return Some(at),
        }
    }
}

pub(crate) fn has_word(sql: &str, word: &str) -> bool {
    tokens(sql).is_some_and(|tokens| {
        tokens.into_iter().any(|token| {
            token.kind == TokenKind::Word && sql[token.range].eq_ignore_ascii_case(word)
        })
    })
}

/// The expressions of a `CREATE INDEX` may contain the column. Its name is in lower case.
pub(crate) fn computes(create: &str, column: &str) -> bool {
    let Some((_, list)) = create.split_once('(') else { return false };
    let list = list.to_lowercase();
    let (columns, condition) = list.split_once("where").unwrap_or((&list, ""));
    let is_plain = !columns
        .trim_end()
        .trim_end_matches(')')
        .contains(|c: char| c.is_ascii_punctuation() && !"_,\"`[].".contains(c));
    condition.contains(column) || !is_plain && columns.contains(column)
}

/// Nothing may follow a semicolon, except in the body of a trigger. The `sqlite3` shell also treats a line
/// with only `go` or a slash as a semicolon, and may run the next line as a command.
pub(crate) fn is_one_statement(sql: &str) -> bool {
    let ends = |line: &str| matches!(line.trim(), "/") || line.trim().eq_ignore_ascii_case("go");
    if sql.lines().any(ends) {
        return false;
    }
    let is_comment = |token: &Token| sql[token.range.clone()].starts_with("--");
    // A comment at the end would swallow the text printed after it.
    let Some(tokens) = tokens(sql).filter(|tokens| !tokens.last().is_some_and(is_comment)) else {
        return false;
    };
    let mut depth = 0;
    for token in tokens {
        match token.kind {
            TokenKind::Word => match sql[token.range].to_ascii_uppercase().as_str() {
                "BEGIN" | "CASE" => depth += 1,
                "END" => depth -= 1,
                _ => {}
            },
            TokenKind::Sign(';') if depth <= 0 => return false,
            _ => {}
        }
    }
    depth == 0
}

/// Keeps the text after the type. Returns `None` without such a column.
pub(crate) fn retype(create: &str, column: &str, ty: &str) -> Option<String> {
    const CONSTRAINTS: &str =
        "AS CHECK COLLATE CONSTRAINT DEFAULT GENERATED NOT NULL PRIMARY REFERENCES UNIQUE";
    let tokens = tokens(create)?;
    let mut depth = 0;
    let mut is_start = false;
    let mut solid = tokens.iter().filter(|token| token.kind != TokenKind::Space).peekable();
    while let Some(token) = solid.next() {
        let starts = is_start;
        is_start = match token.kind {
            TokenKind::Sign('(') => {
                depth += 1;
                depth == 1
            }
            TokenKind::Sign(')') => {
                depth -= 1;
                false
            }
            TokenKind::Sign(',') => depth == 1,
            _ => false,
        };
        if !starts || !is_name(&create[token.range.clone()], column) {
            continue;
        }
        let name_end = token.range.end;
        let mut end = name_end;
        while let Some(next) = solid.next_if(|next| {
            let text = create[next.range.clone()].to_ascii_uppercase();
            let is_type = CONSTRAINTS.split(' ').all(|word| word != text);
            matches!(next.kind, TokenKind::Word | TokenKind::Quoted) && is_type
        }) {
            end = next.range.end;
        }
        if end > name_end && solid.next_if(|next| next.kind == TokenKind::Sign('(')).is_some() {
            end = solid.find(|next| next.kind == TokenKind::Sign(')'))?.range.end;
        }
        return Some(format!("{} {ty}{}", &create[..name_end], &create[end..]));
    }
    None
}

/// SQLite ignores ASCII case in names.
fn is_name(text: &str, name: &str) -> bool {
    let unquoted = match text.chars().next() {
        Some(quote @ ('\'' | '"' | '`')) => {
            let doubled = [quote, quote].iter().collect::<String>();
            text[1..text.len() - 1].replace(&doubled, &quote.to_string())
        }
        Some('[') => text[1..text.len() - 1].to_owned(),
        _ => text.to_owned(),
    };
    unquoted.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_in_any_context() {
        for (before, ty, after) in [
            ("users (id", " CHAR(36)", " PRIMARY KEY, name TEXT)"),
            (
                "\"d(e\" (\"name\" TEXT CHECK (id <> 'id TEXT, '), \"id\"",
                " VARCHAR ( 36 )",
                " NOT NULL)",
            ),
            (
                "t(\n  -- id TEXT, the key;\n  [ID]",
                " LONG VARCHAR(1, 2)",
                "/* id TEXT */DEFAULT (id))",
            ),
            ("t (id", "", ", b)"),
            ("t (id", "", " PRIMARY KEY) WITHOUT ROWID"),
            ("`a``(b` (`id`", " UUID", ", CONSTRAINT id CHECK (1))"),
        ] {
            let found = retype(&format!("CREATE TABLE {before}{ty}{after}"), "id", "BLOB");
            assert_eq!(found, Some(format!("CREATE TABLE {before} BLOB{after}")));
        }
        assert_eq!(retype("CREATE TABLE t (a TEXT)", "id", "BLOB"), None);
        assert_eq!(retype("CREATE TABLE t (id 'TEXT", "id", "BLOB"), None);
    }

    #[test]
    fn text_after_a_statement_is_detected() {
        for one in [
            "CREATE INDEX i ON t (a) -- ; DROP TABLE victim\n",
            "CREATE TABLE t (a TEXT DEFAULT ';', \"b;\" TEXT /* ; */)",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN 1 THEN 2 END; DELETE FROM t; END",
        ] {
            assert!(is_one_statement(one), "{one}");
        }
        for more in [
            "CREATE INDEX i ON t (a); DROP TABLE victim",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END; DROP TABLE victim",
            "CREATE TABLE t (a) END; DROP TABLE victim; BEGIN",
            "CREATE TABLE t (a TEXT DEFAULT '",
            "CREATE INDEX i ON go (id) WHERE shell\n / \nGo\n.shell > 'f;touch x'",
            "CREATE INDEX i ON t (a) -- no end",
        ] {
            assert!(!is_one_statement(more), "{more}");
        }
    }
}
