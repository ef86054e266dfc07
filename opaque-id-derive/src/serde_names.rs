//! The names that serde gives to fields, as its attributes say (serde.rs, "Container attributes" and "Field attributes").

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Token};

/// serde's attributes of a field or a struct, when it is deserialized.
#[derive(Default)]
pub(crate) struct SerdeNames {
    rename: Option<String>,
    rename_all: Option<String>,
    pub(crate) is_flattened: bool,
}

impl SerdeNames {
    /// Ignores what it does not know, of which serde's own derive reports the errors.
    pub(crate) fn of(attrs: &[Attribute]) -> Self {
        let mut names = Self::default();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
            let _ = attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename") {
                    names.rename = deserialized(&meta)?.or(names.rename.take());
                } else if meta.path.is_ident("rename_all") {
                    names.rename_all = deserialized(&meta)?.or(names.rename_all.take());
                } else if meta.path.is_ident("flatten") {
                    names.is_flattened = true;
                } else {
                    skip(&meta)?;
                }
                Ok(())
            });
        }
        names
    }

    /// The name of a field of this struct.
    pub(crate) fn name(&self, field: &str, of_field: &Self) -> String {
        let field = field.trim_start_matches("r#");
        match (&of_field.rename, &self.rename_all) {
            (Some(name), _) => name.clone(),
            (None, Some(rule)) => apply(rule, field),
            (None, None) => field.to_owned(),
        }
    }
}

/// The string of `rename = "…"` or `rename(deserialize = "…")`.
fn deserialized(meta: &ParseNestedMeta<'_>) -> syn::Result<Option<String>> {
    if meta.input.peek(Token![=]) {
        return Ok(Some(meta.value()?.parse::<LitStr>()?.value()));
    }
    let mut name = None;
    meta.parse_nested_meta(|meta| {
        let value = meta.value()?.parse::<LitStr>()?.value();
        if meta.path.is_ident("deserialize") {
            name = Some(value);
        }
        Ok(())
    })?;
    Ok(name)
}

fn skip(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let nested;
        syn::parenthesized!(nested in meta.input);
        nested.parse::<proc_macro2::TokenStream>()?;
    }
    Ok(())
}

/// A field's name in snake case, by serde's rule for fields.
fn apply(rule: &str, field: &str) -> String {
    let pascal = || {
        let words = field.split('_').map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        });
        words.collect::<String>()
    };
    match rule {
        "UPPERCASE" | "SCREAMING_SNAKE_CASE" => field.to_ascii_uppercase(),
        "PascalCase" => pascal(),
        "camelCase" => {
            let pascal = pascal();
            let mut chars = pascal.chars();
            let first = chars.next().map(|c| c.to_ascii_lowercase());
            first.into_iter().chain(chars).collect()
        }
        "kebab-case" => field.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => field.to_ascii_uppercase().replace('_', "-"),
        _ => field.to_owned(),
    }
}
