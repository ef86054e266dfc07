use loco_notes::app::App;
use loco_notes::migrations::Migrator;
use loco_rs::cli;

#[tokio::main]
async fn main() -> loco_rs::Result<()> {
    cli::main::<App, Migrator>().await
}
