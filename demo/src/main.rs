//! A small shop with ordered keys in its database and opaque ids in its API.

mod serve;
mod tour;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Shows opaque-id at work: a tour in the terminal, or with `serve` a web app
#[derive(Parser)]
#[command(name = "demo", bin_name = "cargo run -p demo --")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match Args::parse().command {
        None => tour::run().await,
        Some(Command::Serve(args)) => serve::run(args).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}
