//! One server of each kind for all tests of `cargo xtask test`. The program starts them, prints the variable
//! that locates them, and removes them when its input ends.

use std::io::{Read, Write};

use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers;

fn main() -> Result {
    let servers = servers::start(&Engine::asked_for()?)?;
    println!("{}={}", servers::SHARED, servers::share(&servers));
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop(servers);
    Ok(())
}
