//! How the compiler was called for the crate that asks, so that it can be called alike for other sources.

use proc_macro::TokenStream;

/// The compiler and its arguments, as a `&[&str]`: macros run inside of the compiler.
#[proc_macro]
pub fn rustc_args(_: TokenStream) -> TokenStream {
    let args: Vec<String> = std::env::args().collect();
    // `Debug` of strings is their literals.
    format!("&{args:?}").parse().unwrap_or_default()
}
