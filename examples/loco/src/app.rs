use std::path::Path;

use async_trait::async_trait;
use axum::Router;
use loco_rs::Result;
use loco_rs::app::{AppContext, Hooks};
use loco_rs::bgworker::Queue;
use loco_rs::boot::{BootResult, StartMode, create_app};
use loco_rs::config::Config;
use loco_rs::controller::AppRoutes;
use loco_rs::environment::Environment;
use loco_rs::task::Tasks;
use opaque_id_axum::lend_keyring;
use opaque_id_seaorm::Keyring;

use crate::controllers;
use crate::migrations::Migrator;

pub struct App;

#[async_trait]
impl Hooks for App {
    fn app_name() -> &'static str {
        "notes"
    }

    async fn boot(
        mode: StartMode,
        environment: &Environment,
        config: Config,
    ) -> Result<BootResult> {
        create_app::<Self, Migrator>(mode, environment, config).await
    }

    fn routes(_: &AppContext) -> AppRoutes {
        AppRoutes::empty().add_route(controllers::routes())
    }

    /// Puts the layer around all routes.
    async fn after_routes(router: Router, _: &AppContext) -> Result<Router> {
        let keyring = Keyring::from_env().map_err(loco_rs::Error::msg)?;
        Ok(router.layer(lend_keyring(keyring)))
    }

    async fn connect_workers(_: &AppContext, _: &Queue) -> Result<()> {
        Ok(())
    }

    fn register_tasks(_: &mut Tasks) {}

    async fn truncate(_: &AppContext) -> Result<()> {
        Ok(())
    }

    async fn seed(_: &AppContext, _: &Path) -> Result<()> {
        Ok(())
    }
}
