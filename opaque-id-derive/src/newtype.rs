use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Result, parse_quote};

use crate::attr::crate_of;

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let name = &input.ident;
    let inner = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
            _ => None,
        },
        _ => None,
    };
    let inner = &inner
        .ok_or_else(|| {
            let wanted = format!(
                "`IdNewtype` can only be derived for a struct of one internal id; write `struct {name}(Internal<Part>);`"
            );
            Error::new(name.span(), wanted)
        })?
        .ty;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(
            lifetime,
            "an internal id borrows nothing; leave the lifetime out",
        ));
    }
    let krate = crate_of(input, "id_newtype", default_crate)?;

    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let resource = quote!(<#inner as #krate::resource::InternalId>::Resource);
    let repr = quote!(#krate::resource::ReprOf<#resource>);
    let mut from = input.generics.clone();
    from.params.push(parse_quote!(__I: #krate::__private::IsInternal<Resource = #resource>));
    let mut into_view = input.generics.clone();
    into_view.params.push(parse_quote!(__V));
    let of_inner = parse_quote!(#inner: #krate::IntoView<__V>);
    into_view.make_where_clause().predicates.push(of_inner);
    let (from, _, _) = from.split_for_impl();
    let (into_view, _, of_inner) = into_view.split_for_impl();
    // The crate writes the traits of its driver and adds its own parameters.
    let params = input.generics.params.iter().cloned().map(|mut param| {
        match &mut param {
            GenericParam::Type(param) => param.default = None,
            GenericParam::Const(param) => param.default = None,
            GenericParam::Lifetime(_) => {}
        }
        param
    });
    let params: Vec<_> = params.collect();
    let bounds: Vec<_> = where_clause.iter().flat_map(|clause| &clause.predicates).collect();

    Ok(quote! {
        #[allow(deprecated)]
        #[automatically_derived]
        impl #impl_generics #krate::__private::Private for #name #type_generics #where_clause {}

        #[allow(deprecated)]
        #[automatically_derived]
        #[allow(clippy::disallowed_methods)]
        impl #impl_generics #krate::resource::InternalId for #name #type_generics #where_clause {
            type Resource = #resource;

            #[inline]
            fn from_repr(repr: #repr) -> ::core::result::Result<Self, #krate::KeyError> {
                <#inner as #krate::resource::InternalId>::from_repr(repr).map(Self)
            }

            #[inline]
            fn from_checked(repr: #repr) -> Self {
                Self(<#inner as #krate::resource::InternalId>::from_checked(repr))
            }

            #[inline]
            fn as_repr(&self) -> &#repr {
                #krate::resource::InternalId::as_repr(&self.0)
            }
        }

        #[allow(deprecated)]
        #[automatically_derived]
        impl #from ::core::convert::From<__I> for #name #type_generics #where_clause {
            #[inline]
            fn from(id: __I) -> Self {
                Self(#krate::resource::InternalId::convert(id))
            }
        }

        // With this impl, the newtype also converts into the `Internal<_>` of each adapter.
        #[allow(deprecated)]
        #[automatically_derived]
        #[allow(clippy::disallowed_methods)]
        impl #impl_generics #krate::__private::MayEnter<#name #type_generics>
            for #krate::__private::RawKeyOf<#resource, <#resource as #krate::OpaqueId>::Key>
            #where_clause
        {
            type Repr = #repr;

            #[inline]
            fn enter(id: #name #type_generics) -> #repr {
                *#krate::resource::InternalId::as_repr(&id)
            }
        }

        #[allow(deprecated)]
        #[automatically_derived]
        impl #impl_generics ::core::convert::From<#name #type_generics>
            for #krate::__private::Internal<#resource>
            #where_clause
        {
            #[inline]
            fn from(id: #name #type_generics) -> Self {
                #krate::resource::InternalId::convert(id)
            }
        }

        #[allow(deprecated)]
        #[automatically_derived]
        impl #into_view #krate::IntoView<__V> for #name #type_generics #of_inner {
            #[inline]
            fn into_view(self, keyring: &#krate::Keyring) -> __V {
                #krate::IntoView::into_view(self.0, keyring)
            }
        }

        // The bound has a lifetime because the compiler would refuse an unsatisfied bound without parameters.
        #krate::__private::never_leaves! {
            [#(#params,)*] [#name #type_generics]
            [#(#bounds,)* for<'__a> &'__a #krate::__private::InternalIdOf<Self>: #krate::__private::MayLeave]
        }

        #krate::__newtype! { [#(#params,)*] [#(#bounds,)*] [#name #type_generics] [#inner] }
    })
}
