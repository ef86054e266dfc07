//! The README's commands.

#[test]
fn the_readme_is_true() -> Result<(), Box<dyn std::error::Error>> {
    example_readme::run(env!("CARGO_BIN_EXE_actix-diesel"), include_str!("../README.md"))
}
