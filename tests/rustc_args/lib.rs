//! The compiler's command line for the calling crate, so that other sources can be compiled alike.

use proc_macro::TokenStream;

/// Returns the compiler and its arguments as a `&[&str]`, because macros run inside of the compiler.
#[proc_macro]
pub fn rustc_args(_: TokenStream) -> TokenStream {
    let args: Vec<String> = std::env::args().collect();
    // `Debug` of strings prints their literals.
    format!("&{args:?}").parse().unwrap_or_default()
}
