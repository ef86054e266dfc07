use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    DeriveInput, Error, Field, Ident, LitBool, LitStr, Member, Path, Result, Type, bracketed,
    parenthesized,
};

use crate::attr::{
    self, Columns, FieldOptions, Shape, crate_path, each_option, enum_path, in_option, located,
    or_default, shapes, ungrouped, value, with_bounds,
};
use crate::written::Written;

#[derive(Default)]
struct Options {
    models: Vec<Type>,
    is_part: bool,
    columns: Columns,
    written: Written,
    krate: Option<Path>,
}

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let shapes = shapes(input, "View")?;
    let options = options(input)?;
    let krate = or_default(options.krate, default_crate)?;
    if let Some(view) = &options.written.name {
        return options.written.expand(view, input, &krate);
    }
    let part = match (options.is_part, &shapes[..]) {
        (false, _) => None,
        (true, [Shape { variant: None, fields }]) if input.generics.params.is_empty() => {
            Some(expand_part(&input.ident, fields.iter(), &krate)?)
        }
        (true, _) => {
            let wanted = "a part must be a struct without generics";
            return Err(Error::new(input.ident.span(), wanted));
        }
    };

    let mut given = Vec::new();
    let mut filled = Vec::new();
    for shape in &shapes {
        filled.push((
            shape.other("view")?,
            Filled::new(shape, &krate, &options.columns.id(), &mut given)?,
        ));
    }

    let is_encrypted = filled.iter().any(|(_, filled)| filled.is_encrypted);
    let columns = options.columns.of(input, is_encrypted)?;
    if let (Some(_), [_, second, ..]) = (&columns, &options.models[..]) {
        let wanted = "a view that decrypts has one model; write another view for this one";
        return Err(Error::new(second.span(), wanted));
    }
    let (view, vis) = (&input.ident, &input.vis);
    let generics = with_bounds(input, &krate);
    let (_, type_generics, _) = input.generics.split_for_impl();
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let impls = options.models.iter().map(|model| {
        let types = given.iter().map(|(_, ty)| ty);
        let names = given.iter().map(|(name, _)| name);
        let (ty, pattern) = match &given[..] {
            [] => (quote!(#model), quote!(model)),
            _ => (quote!((#model, #(#types),*)), quote!((model, #(#names),*))),
        };
        let body = match &filled[..] {
            [(None, Filled { first, rest, values, .. })] => quote! {
                #(#first)*
                #(#rest)*
                #view { #(#values),* }
            },
            variants => {
                let path = enum_path(model)?;
                let arms = variants.iter().zip(&shapes).map(|((other, filled), shape)| {
                    let Filled { sources, rest, values, .. } = filled;
                    let name = shape.variant.map(|variant| &variant.ident);
                    quote! {
                        #path::#other { #(#sources,)* .. } => {
                            #(#rest)*
                            #view::#name { #(#values),* }
                        }
                    }
                });
                quote!(match model { #(#arms)* })
            }
        };
        let view = quote!(#view #type_generics);
        let fills = quote! {
            use #krate::__private::{
                FillAsItIs as _, FillByParts as _, FillByView as _, FillNotAtAll as _,
            };
        };
        let Some((columns, error)) = columns else {
            return Ok(quote! {
                #[allow(deprecated)]
                #[automatically_derived]
                impl #impl_generics #krate::IntoView<#view> for #ty #where_clause {
                    #[allow(non_snake_case, unused_imports, unused_variables)]
                    #[inline]
                    fn into_view(self, keyring: &#krate::Keyring) -> #view {
                        #fills
                        let #pattern = self;
                        #body
                    }
                }
            });
        };
        Ok(quote! {
            impl #impl_generics #view #where_clause {
                /// Seals the ids of a model, and decrypts its encrypted fields.
                #[allow(unused_imports, unused_variables)]
                #vis fn decrypt(
                    keyring: &#krate::Keyring,
                    #pattern: #ty,
                    columns: &#columns,
                ) -> ::core::result::Result<Self, #error> {
                    #fills
                    ::core::result::Result::Ok({ #body })
                }
            }
        })
    });
    let impls = impls.collect::<Result<Vec<_>>>()?;
    Ok(quote!(#part #(#impls)*))
}

#[derive(Default)]
struct Filled {
    sources: Vec<TokenStream>,
    /// The fields that read the whole model come first because the others move out of it.
    first: Vec<TokenStream>,
    rest: Vec<TokenStream>,
    values: Vec<TokenStream>,
    is_encrypted: bool,
}

impl Filled {
    fn new<'i>(
        shape: &'i Shape<'_>,
        krate: &Path,
        id: &Ident,
        given: &mut Vec<(Ident, &'i Type)>,
    ) -> Result<Self> {
        let mut all = Self::default();
        for (name, field_value, field) in shape.fields() {
            let FieldOptions { rename, with, is_encrypted, is_given, is_into, prefix } =
                field_options(field)?;
            let (ty, at) = (&field.ty, located(&field.ty));
            all.is_encrypted |= is_encrypted;
            all.values.push(quote!(#name: #field_value));
            if shape.variant.is_some()
                && (is_given || with.is_some() || prefix.is_some() || is_encrypted)
            {
                return Err(Error::new_spanned(
                    field,
                    "a variant is filled from the variant of the model: its fields have only `rename` and `into`",
                ));
            }
            if is_given {
                given.push((field_value, ty));
            } else if let Some(with) = with {
                all.first
                    .push(quote_spanned!(located(&with)=> let #field_value: #ty = #with(&model);));
            } else if let Some(prefix) = prefix {
                let part = part_path(ty)?;
                all.rest.push(quote! {
                    let #field_value: #ty = #part!([#krate] [#prefix] [#ty]);
                });
            } else if is_encrypted {
                let from = rename.map_or(name, Member::from);
                let decrypted = match in_option(ty) {
                    Some(_) => quote_spanned! {at=>
                        match &model.#from {
                            ::core::option::Option::Some(value) => {
                                ::core::option::Option::Some(columns.#from.decrypt(model.#id, value)?)
                            }
                            ::core::option::Option::None => ::core::option::Option::None,
                        }
                    },
                    None => {
                        quote_spanned!(at=> columns.#from.decrypt(model.#id, &model.#from)?)
                    }
                };
                all.first.push(quote_spanned!(at=> let #field_value: #ty = #decrypted;));
            } else {
                let from = rename.map_or(name, Member::from);
                let value = match shape.variant {
                    Some(_) => {
                        all.sources.push(quote!(#from: #field_value));
                        fill(at, krate, ty, &field_value, is_into)
                    }
                    None => {
                        let from = quote_spanned!(at=> model.#from);
                        fill(at, krate, ty, &from, is_into)
                    }
                };
                all.rest.push(quote_spanned!(at=> let #field_value: #ty = #value;));
            }
        }
        Ok(all)
    }
}

fn fill(
    at: Span,
    krate: &impl ToTokens,
    ty: &impl ToTokens,
    from: &impl ToTokens,
    is_into: bool,
) -> TokenStream {
    if is_into {
        return quote_spanned!(at=> ::core::convert::Into::into(#from));
    }
    let filling = quote_spanned!(at=> #krate::__private::Filling::<_, #ty>::of(&#from));
    quote_spanned!(at=> (&&&&#filling).fill(#from, keyring))
}

/// Only the other views know a part's model. A macro with the name of the type contains the names of its
/// fields, so that it is found wherever the type is.
fn expand_part<'f>(
    view: &Ident,
    fields: impl Iterator<Item = &'f Field>,
    krate: &Path,
) -> Result<TokenStream> {
    let (mut names, mut types, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields {
        let Some(name) = &field.ident else { continue };
        let FieldOptions { rename, with, is_encrypted, is_given, is_into, prefix } =
            field_options(field)?;
        if with.is_some() || is_given || prefix.is_some() || is_encrypted {
            return Err(Error::new_spanned(
                field,
                "a part is filled from the fields of its view's model: its fields have only `rename` and `into`",
            ));
        }
        let from = rename.unwrap_or_else(|| name.clone());
        let is_required = in_option(&field.ty).is_none();
        names.push(name);
        types.push(&field.ty);
        sources.push(quote!((#from #is_into #is_required)));
    }
    let of_part = format_ident!("__part_{}", view);
    let numbers = 0..names.len();
    Ok(quote! {
        #[allow(deprecated)]
        #[automatically_derived]
        impl #krate::__private::ViewPart for #view {
            type Fields = (#(#types,)*);
            fn from_fields((#(#names,)*): Self::Fields) -> Self {
                Self { #(#names),* }
            }
        }
        #(
            #[automatically_derived]
            impl #krate::__private::PartField<#numbers> for #view {
                type Type = #types;
            }
        )*
        #[doc(hidden)]
        #[allow(unused_macros)]
        macro_rules! #of_part {
            ($($of:tt)*) => { #krate::__fill_part! { $($of)* #(#sources)* } };
        }
        #[doc(hidden)]
        #[allow(unused_imports)]
        pub(crate) use #of_part as #view;
    })
}

fn part_path(ty: &Type) -> Result<&Path> {
    match ungrouped(in_option(ty).unwrap_or(ty)) {
        Type::Path(ty) if ty.path.segments.iter().all(|segment| segment.arguments.is_none()) => {
            Ok(&ty.path)
        }
        _ => Err(Error::new_spanned(
            ty,
            "`prefix` is for a struct with `#[derive(View)] #[view(part)]`, by its own name",
        )),
    }
}

/// The arguments of a part's macro: `[krate] ["prefix"] [Type] (field is_into is_required) …`.
struct Part {
    krate: TokenStream,
    prefix: LitStr,
    ty: Type,
    sources: Vec<(Ident, bool, bool)>,
}

impl Parse for Part {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        fn bracketed<T: Parse>(input: ParseStream<'_>) -> Result<T> {
            let content;
            bracketed!(content in input);
            content.parse()
        }
        let (krate, prefix, ty) = (bracketed(input)?, bracketed(input)?, bracketed(input)?);
        let mut sources = Vec::new();
        while !input.is_empty() {
            let content;
            parenthesized!(content in input);
            let name = content.call(Ident::parse_any)?;
            let flag = || content.parse().map(|flag: LitBool| flag.value);
            sources.push((name, flag()?, flag()?));
        }
        Ok(Self { krate, prefix, ty, sources })
    }
}

pub(crate) fn fill_part(input: TokenStream) -> Result<TokenStream> {
    let Part { krate, prefix, ty, sources } = syn::parse2(input)?;
    let of = in_option(&ty);
    let part = of.unwrap_or(&ty);
    if of.is_some() && !sources.iter().any(|(_, _, is_required)| *is_required) {
        return Err(Error::new(
            prefix.span(),
            "every field of the part is an `Option`, so nothing says when there is no part: write its type without the `Option`",
        ));
    }
    let of_model = |from: &Ident| quote_spanned!(prefix.span()=> model.#from);
    let values = sources.iter().enumerate().map(|(number, (source, is_into, is_required))| {
        let from = prefixed(&prefix, source)?;
        let ty =
            quote_spanned!(prefix.span()=> <#part as #krate::__private::PartField<#number>>::Type);
        if of.is_none() || !is_required {
            return Ok(fill(prefix.span(), &krate, &ty, &of_model(&from), *is_into));
        }
        // If a column is null that the part requires, an outer join found no row.
        let value = match is_into {
            true => quote_spanned!(prefix.span()=> model.#from.map(::core::convert::Into::into)),
            false => {
                let ty = quote!(::core::option::Option<#ty>);
                fill(prefix.span(), &krate, &ty, &of_model(&from), false)
            }
        };
        Ok(quote! {
            match #value {
                ::core::option::Option::Some(value) => value,
                ::core::option::Option::None => break 'part ::core::option::Option::None,
            }
        })
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let filled = quote!(<#part as #krate::__private::ViewPart>::from_fields((#(#values,)*)));
    Ok(match of {
        Some(_) => quote!('part: { ::core::option::Option::Some(#filled) }),
        None => filled,
    })
}

fn prefixed(prefix: &LitStr, source: &Ident) -> Result<Ident> {
    let start = prefix.value();
    let mut name = match &*start {
        "" => source.clone(), // which can be raw
        _ => syn::parse_str(&format!("{start}{}", source.unraw())).map_err(|_| {
            let problem = "`prefix` must be what the names of the model's fields begin with, such as `author_`";
            Error::new(prefix.span(), problem)
        })?,
    };
    name.set_span(prefix.span());
    Ok(name)
}

fn options(input: &DeriveInput) -> Result<Options> {
    let mut options = Options::default();
    let (mut is_model, mut is_view) = (false, false);
    each_option(&input.attrs, "view", |name, meta| {
        let is_of_model = options.written.option(name, meta)?;
        is_model |= is_of_model;
        is_view |= !is_of_model && name != "crate";
        match name {
            _ if is_of_model => {}
            "from" => options.models.push(value(meta, "a type; write `from = User`")?),
            "part" => options.is_part = true,
            "crate" => options.krate = Some(crate_path(meta)?),
            _ if options.columns.option(name, meta)? => {}
            _ => {
                let known = "unknown option; the options of a view are `from`, `part`, `columns`, `error`, `id` and `crate`, and those of a model `into`, `derive`, `attr` and `crate`";
                return Err(meta.error(known));
            }
        }
        Ok(())
    })?;
    if is_model && (is_view || options.written.name.is_none()) {
        let problem = "`derive` and `attr` are options of `into`, which writes the view of a model; a view itself has `from` or `part`";
        return Err(Error::new(input.ident.span(), problem));
    }
    if !is_model && options.models.is_empty() && !options.is_part {
        let problem = "a view needs the type that fills it; write `#[view(from = User)]`, or `#[view(into = UserView)]` on the model";
        return Err(Error::new(input.ident.span(), problem));
    }
    Ok(options)
}

fn field_options(field: &Field) -> Result<FieldOptions> {
    let options = attr::field_options(
        field,
        "view",
        "a function that takes `&` of the model; write `with = initials`",
        "unknown option; the options of a view's field are `rename`, `into`, `with`, `given`, `prefix` and `decrypt`",
    )?;
    let is_of_one = options.rename.is_some() || options.is_into;
    let is_used = [
        is_of_one && (options.is_into || !options.is_encrypted),
        options.with.is_some(),
        options.is_given,
        options.prefix.is_some(),
        options.is_encrypted,
    ];
    if is_used.into_iter().filter(|is_used| *is_used).count() > 1 {
        return Err(Error::new_spanned(
            field,
            "`with`, `given`, `prefix` and `decrypt` stand alone: a field has only one of them, and no `into`; only `decrypt` has `rename`",
        ));
    }
    Ok(options)
}
