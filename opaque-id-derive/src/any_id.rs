use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Fields, Result};

use crate::attr::{crate_of, located};

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let (Data::Enum(data), None) = (&input.data, input.generics.params.first()) else {
        let wanted = "`AnyId` can only be derived for enums without generics";
        return Err(Error::new(input.ident.span(), wanted));
    };
    let krate = crate_of(input, "any_id", default_crate)?;
    let (mut names, mut types) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        let field = match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
            _ => None,
        };
        let field = field.ok_or_else(|| {
            let name = &variant.ident;
            let wanted = format!("a variant has one internal id; write `{name}(Internal<{name}>)`");
            Error::new_spanned(variant, wanted)
        })?;
        names.push(&variant.ident);
        types.push(&field.ty);
    }
    let ident = &input.ident;
    let opens = types.iter().map(
        |ty| quote_spanned!(located(ty)=> #krate::__private::open_variant::<#ty>(keyring, text, stand_in)?),
    );
    Ok(quote! {
        #[automatically_derived]
        impl #krate::AnyId for #ident {
            const PREFIXES: &'static [&'static str] = {
                const PREFIXES: &[&str] = &[#(#krate::__private::variant_prefix::<#types>()),*];
                #krate::__private::assert_distinct(PREFIXES);
                PREFIXES
            };

            fn open_text(
                keyring: &#krate::Keyring,
                prefix: &str,
                text: &str,
                stand_in: ::core::option::Option<u32>,
            ) -> ::core::result::Result<::core::option::Option<Self>, #krate::IdError> {
                #(if prefix == #krate::__private::variant_prefix::<#types>() {
                    return ::core::result::Result::Ok(::core::option::Option::Some(Self::#names(#opens)));
                })*
                ::core::result::Result::Ok(::core::option::Option::None)
            }

            fn seal_text(&self, keyring: &#krate::Keyring) -> ::std::string::String {
                match *self {
                    #(Self::#names(id) => ::std::string::ToString::to_string(&keyring.seal(id)),)*
                }
            }
        }

        // The prefixes are checked even if nothing is opened.
        const _: &[&str] = <#ident as #krate::AnyId>::PREFIXES;
    })
}
