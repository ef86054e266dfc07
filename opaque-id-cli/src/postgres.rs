/// Returns the name in quotes, like `quote_ident`, if SQL needs them. Existing quotes are kept. The name may
/// have a schema.
pub(crate) fn quoted(table: &str) -> Option<String> {
    let parts = table.split('.');
    let is_quoted = table.contains('"') || parts.clone().all(is_plain);
    let parts = parts.map(|part| match is_plain(part) {
        true => part.to_owned(),
        false => format!("\"{part}\""),
    });
    (!is_quoted).then(|| parts.collect::<Vec<_>>().join("."))
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_start = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    bytes.next().is_some_and(is_start)
        && bytes.all(|byte| is_start(byte) || byte.is_ascii_digit())
        && !KEYWORDS.split(' ').any(|keyword| keyword == name)
}

/// PostgreSQL 18 or an earlier version quotes these words: `SELECT word FROM pg_get_keywords() WHERE catcode
/// <> 'U'`.
const KEYWORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both \
    case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
    interval into is isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query \
    json_scalar json_serialize json_table json_value lateral leading least left like limit localtime \
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on \
    only or order out outer overlaps overlay placing position precision primary real references returning right \
    row select session_user setof similar smallint some substring symmetric system_user table tablesample then \
    time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when \
    where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi \
    xmlroot xmlserialize xmltable";

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_that_need_quotes_get_them() {
        for (table, expected) in [
            ("users", None),
            ("v2_users", None),
            ("shop.users", None),
            ("\"user\"", None),
            ("user", Some("\"user\"")),
            ("order", Some("\"order\"")),
            ("shop.user", Some("shop.\"user\"")),
            ("Users", Some("\"Users\"")),
            ("2fa", Some("\"2fa\"")),
            ("line-item", Some("\"line-item\"")),
        ] {
            assert_eq!(quoted(table).as_deref(), expected, "{table}");
        }
    }
}
