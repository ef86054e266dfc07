//! Generates the impl of `OpaqueId`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{DeriveInput, Result, Type, parse_quote};

use crate::attr::{Options, or_default, ungrouped};

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let Options { prefix, option, domain, key, form, internal, krate } = Options::parse(input)?;
    let look = look(&prefix.value(), &form.to_string());
    // rust-analyzer shows the documentation of this constant for the word `prefix` of the attribute.
    let option = Ident::new("PREFIX", Span::call_site().located_at(option));
    let krate = or_default(krate, default_crate)?;
    let key = match key {
        Some(key) => match ungrouped(&key) {
            key if is_kind(key) => quote!(#krate::key::#key),
            key => quote!(#key),
        },
        None => quote!(#krate::key::Uuid7),
    };
    // The whole path gets the form's span, because the error for a key without this form points there.
    let form: TokenStream = quote!(#krate::form::#form)
        .into_iter()
        .map(|mut token| {
            token.set_span(form.span());
            token
        })
        .collect();

    let internal = match internal {
        Some(newtype) => quote!(#newtype),
        None => quote!(#krate::Internal<Self>),
    };

    let ident = &input.ident;
    let mut generics = input.generics.clone();
    for param in input.generics.type_params() {
        let param = &param.ident;
        generics.make_where_clause().predicates.push(parse_quote!(#param: 'static));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();

    Ok(quote! {
        #[allow(deprecated)]
        #[automatically_derived]
        impl #impl_generics #krate::OpaqueId for #ident #type_generics #where_clause {
            type Key = #key;
            type Form = #form;
            type Internal = #internal;
            #[doc = #look]
            const #option: &'static str = #prefix;
            const DOMAIN: &'static str = #domain;

            fn slot() -> &'static #krate::__private::Slot {
                static SLOT: #krate::__private::Slot = #krate::__private::Slot::new(#prefix, #domain);
                &SLOT
            }
        }
    })
}

fn look(prefix: &str, form: &str) -> String {
    let id = match form {
        "UuidForm" | "MappedUuid" => "b141f7fe-3115-84f0-b7be-f0b5c2b7862c".to_owned(),
        "Short" => format!("{prefix}_6wr8ndhrz4xkw"),
        "Tagged" => format!("{prefix}_pw3cyrpqvh5xbz4sashh6532bacjrdvp6e"),
        _ => format!("{prefix}_7x1nhm7sq0r1qh4pewbejb04n3"),
    };
    format!("Ids have the form `{form}` and look like `{id}`.")
}

/// The bare name of a kind needs no import, like a form.
fn is_kind(key: &Type) -> bool {
    const KINDS: [&str; 4] = ["StructuredKey", "Ulid", "Uuid", "Uuid7"];
    matches!(key, Type::Path(key) if KINDS.iter().any(|kind| key.path.is_ident(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_documents_the_form_and_an_id() {
        for (form, id) in
            [("text", "team_7x1nhm7sq0r1qh4pewbejb04n3"), ("short", "team_6wr8ndhrz4xkw")]
        {
            let input = parse_quote!(
                #[opaque_id(prefix = "team", key = i64, form = #form)]
                struct Team;
            );
            let expanded = expand(&input, "::opaque_id_core").map(|it| it.to_string());
            assert!(expanded.is_ok_and(|it| it.contains(&format!("and look like `{id}`."))));
        }
    }
}
