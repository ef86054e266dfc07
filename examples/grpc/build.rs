//! Compiles the messages and the service.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["shop.proto"], ["."])?;
    Ok(tonic_prost_build::compile_fds(files)?)
}
