use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use serde_derive_internals::ast::{Container, Data};
use serde_derive_internals::attr::TagType;
use serde_derive_internals::{Ctxt, Derive};
use syn::{DeriveInput, Error, Expr, Fields, Member, Path, Result, Token, Type};

use crate::attr::{
    Columns, FieldOptions, crate_path, each_option, enum_path, field_options, in_option, located,
    or_default, shapes, value, with_bounds,
};

#[derive(Default)]
struct Options {
    model: Option<Type>,
    with: Option<Path>,
    has_rest: bool,
    given: Vec<(Ident, Type)>,
    computed: Vec<(Ident, Expr)>,
    columns: Columns,
    krate: Option<Path>,
}

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let shapes = shapes(input, "IntoModel")?;
    let Options { model, with: with_all, has_rest, given, computed, columns, krate } =
        options(input)?;
    let model = model.ok_or_else(|| {
        Error::new(
            input.ident.span(),
            "a request needs the type that it becomes; write `#[model(into = NewUser)]`",
        )
    })?;
    let krate = or_default(krate, default_crate)?;
    let path = enum_path(&model)?;
    // serde's own derive reports errors in its attributes.
    let context = Ctxt::new();
    let as_serde_sees_it =
        Container::from_ast(&context, input, Derive::Deserialize, &format_ident!("__private"));
    let _ = context.check();
    let named = as_serde_sees_it.iter().flat_map(|it| it.data.all_fields());
    let mut named = named.map(|field| &field.attrs);
    let is_transparent = as_serde_sees_it.as_ref().is_some_and(|it| it.attrs.transparent());
    let (given_names, given_types): (Vec<_>, Vec<_>) = given.into_iter().unzip();
    let mut others: Vec<_> = given_names.iter().map(|name| (name, None)).collect();
    let mut bindings = TokenStream::new();
    for (name, value) in &computed {
        let mut given = others.iter_mut().take(given_names.len());
        match given.find(|(given, field)| *given == name && field.is_none()) {
            // Values are encrypted for the first id, such as in `given(id: Internal<User>, id = Set(id))`.
            Some((_, field)) => *field = Some(value),
            None => {
                bindings.extend(quote!(let #name = #value;));
                others.push((name, None));
            }
        }
    }
    let others = others.into_iter().map(|(name, field)| match field {
        Some(value) => (name, quote!(#name: #value)),
        None => (name, quote!(#name)),
    });
    let (others, fields): (Vec<_>, Vec<_>) = others.unzip();
    let mut is_used = false;
    let rest = has_rest.then(|| quote!(..::core::default::Default::default()));
    let request = &input.ident;
    let id = columns.id();
    let mut arms = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        let other = shape.other("model")?;
        if other.is_some() && (has_rest || !others.is_empty()) {
            let wanted =
                "a variant has all fields of the model's: `default` and `given` are for structs";
            return Err(Error::new(input.ident.span(), wanted));
        }
        let in_variant = as_serde_sees_it.as_ref().map_or(Vec::new(), |it| in_variant(it, number));
        let (mut sources, mut values) = (Vec::new(), Vec::new());
        for (name, field_value, field) in shape.fields() {
            let FieldOptions { rename, with, is_encrypted, .. } = field_options(
                field,
                "model",
                "a function that takes the opened value; write `with = Set`",
                "unknown option; the options of a request's field are `rename`, `with` and `encrypt`",
            )?;
            let serde = named.next();
            let shown = serde.map_or(name.to_token_stream().to_string(), |it| {
                it.name().deserialize_name().value.clone()
            });
            // A variant's only field without a name is the variant's content, as the field of a transparent
            // struct is, and serde puts a flattened field's own fields in its place.
            let is_in_place = is_transparent
                || matches!(&shape.fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1)
                || serde.is_some_and(|it| it.flatten());
            let names = (!is_in_place).then_some(&shown).into_iter().chain(&in_variant);
            let at = located(&field.ty);
            let opening = quote!(#krate::__private::Opening::of(&#field_value));
            let opened = quote_spanned!(at=> (&&&#opening).open(#field_value, __keyring));
            let opened = quote_spanned!(at=> #opened.map_err(|error| error #(.in_field(#names))*)?);
            let into = rename.map_or_else(|| name.clone(), Member::from);
            is_used |= is_encrypted;
            let opened = match (is_encrypted, in_option(&field.ty)) {
                (false, _) => opened,
                (true, None) => quote_spanned!(at=> columns.#into.encrypt(#id, &#opened)?),
                (true, Some(_)) => quote_spanned! {at=>
                    #opened.map(|value| columns.#into.encrypt(#id, &value)).transpose()?
                },
            };
            let opened = match with.as_ref().or(with_all.as_ref()) {
                Some(with) => quote_spanned!(located(with)=> #with(#opened)),
                None => opened,
            };
            sources.push(quote!(#name: #field_value));
            values.push(quote!(#into: #opened));
        }
        let (variant, into) = match (shape.variant, other) {
            (Some(variant), Some(other)) => {
                let name = &variant.ident;
                (quote!(#request::#name), quote!(#path::#other))
            }
            _ => (quote!(#request), quote!(#path)),
        };
        arms.push(quote! {
            #variant { #(#sources),* } => #into { #(#values,)* #(#fields,)* #rest }
        });
    }
    let columns = columns.of(input, is_used)?;
    if columns.is_some() && !others.contains(&&id) {
        let wanted = format!(
            "a value is encrypted for the id of its row; write `given({id}: Internal<User>)`, or `id = …` if the field has another name"
        );
        return Err(Error::new(input.ident.span(), wanted));
    }
    let (ty, pattern) = match &given_names[..] {
        [] => (None, quote!(__request)),
        names => (Some(quote!(#(, #given_types)*)), quote!((__request, #(#names),*))),
    };
    let generics = with_bounds(input, &krate);
    let (_, type_generics, _) = input.generics.split_for_impl();
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let of = match ty {
        None => quote!(#request #type_generics),
        Some(given) => quote!((#request #type_generics #given)),
    };
    if let Some((columns, error)) = columns {
        let vis = &input.vis;
        return Ok(quote! {
            impl #impl_generics #request #type_generics #where_clause {
                /// Opens the ids of the request, and encrypts its values for the row with this id.
                #[allow(unused_imports, unused_variables, clippy::needless_update)]
                #vis fn encrypt(
                    self,
                    keyring: &#krate::Keyring,
                    #(#given_names: #given_types,)*
                    columns: &#columns,
                ) -> ::core::result::Result<#model, #error> {
                    use #krate::__private::{OpenByModel as _, OpenByParts as _, OpenNothing as _};
                    let (__request, __keyring) = (self, keyring);
                    #bindings
                    ::core::result::Result::Ok(match __request { #(#arms,)* })
                }
            }
        });
    }
    Ok(quote! {
        #[allow(deprecated)]
        #[automatically_derived]
        impl #impl_generics #krate::IntoModel<#model> for #of #where_clause {
            #[allow(non_snake_case, unused_imports, unused_variables, clippy::needless_update)]
            fn into_model(
                self,
                __keyring: &#krate::Keyring,
            ) -> ::core::result::Result<#model, #krate::RequestError> {
                use #krate::__private::{OpenByModel as _, OpenByParts as _, OpenNothing as _};
                let #pattern = self;
                #bindings
                ::core::result::Result::Ok(match __request { #(#arms,)* })
            }
        }
    })
}

/// The innermost name comes first.
fn in_variant(container: &Container<'_>, number: usize) -> Vec<String> {
    let Data::Enum(variants) = &container.data else { return Vec::new() };
    match (container.attrs.tag(), variants.get(number)) {
        (TagType::External, Some(variant)) if !variant.attrs.untagged() => {
            vec![variant.attrs.name().deserialize_name().value.clone()]
        }
        (TagType::Adjacent { content, .. }, _) => vec![content.clone()],
        _ => Vec::new(),
    }
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options::default();
    each_option(&input.attrs, "model", |name, meta| {
        match name {
            "into" => options.model = Some(value(meta, "a struct; write `into = NewUser`")?),
            "with" => options.with = Some(value(meta, "a function; write `with = Set`")?),
            "default" => options.has_rest = true,
            "given" => meta.parse_nested_meta(|given| {
                let name = given.path.require_ident()?.clone();
                if given.input.peek(Token![=]) {
                    options.computed.push((name, given.value()?.parse()?));
                    return Ok(());
                }
                let wanted = "a field of the model with its type or its value; write `given(owner: UserId)` or `given(id = Internal::generate())`";
                let ty = given.input.parse::<Token![:]>().and_then(|_| given.input.parse());
                options.given.push((name, ty.map_err(|_| given.error(wanted))?));
                Ok(())
            })?,
            "crate" => options.krate = Some(crate_path(meta)?),
            _ if options.columns.option(name, meta)? => {}
            _ => {
                return Err(meta.error(
                    "unknown option; the options of a request are `into`, `with`, `default`, `given`, `columns`, `error`, `id` and `crate`",
                ));
            }
        }
        Ok(())
    })?;
    Ok(options)
}
