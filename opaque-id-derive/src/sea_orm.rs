//! The derive's knowledge of a SeaORM `Model`.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Field, LitBool, Path, Result, Token, Type};

use crate::attr::ungrouped;

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let mut tokens =
        crate::expand::expand(input, default_crate).unwrap_or_else(syn::Error::into_compile_error);
    tokens.extend(check_primary_key(input));
    Ok(tokens)
}

/// SeaORM treats a primary key as auto-incremented unless its type is called `…Uuid` or `…String`.
fn check_primary_key(input: &DeriveInput) -> TokenStream {
    let Data::Struct(data) = &input.data else {
        return TokenStream::new();
    };
    let mut keys = data.fields.iter().filter_map(auto_increment);
    match (keys.next(), keys.next()) {
        (Some((key, true)), None) if is_internal(key) => quote_spanned! {key.span()=>
            const _: fn() = <#key>::__is_auto_incremented;
        },
        _ => TokenStream::new(),
    }
}

/// The flag says whether SeaORM treats the key as auto-incremented.
fn auto_increment(field: &Field) -> Option<(&Type, bool)> {
    let mut primary_key = false;
    let mut auto_increment = true;
    options(&field.attrs, |option, value| {
        primary_key |= option.is_ident("primary_key");
        if option.is_ident("auto_increment") {
            auto_increment = value;
        }
    });
    primary_key.then_some((&field.ty, auto_increment))
}

fn is_internal(ty: &Type) -> bool {
    matches!(ungrouped(ty), Type::Path(ty) if ty.path.segments.last().is_some_and(|last| last.ident == "Internal"))
}

fn options(attrs: &[Attribute], mut each: impl FnMut(&Path, bool)) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("sea_orm")) {
        // SeaORM's own derive reports errors in the attribute.
        let _ = attr.parse_nested_meta(|meta| {
            let mut value = true;
            if meta.input.peek(Token![=]) {
                let rest = meta.value()?;
                if rest.peek(LitBool) {
                    value = rest.parse::<LitBool>()?.value;
                } else {
                    rest.parse::<syn::Expr>()?;
                }
            } else if meta.input.peek(syn::token::Paren) {
                let nested;
                syn::parenthesized!(nested in meta.input);
                nested.parse::<TokenStream>()?;
            }
            each(&meta.path, value);
            Ok(())
        });
    }
}
