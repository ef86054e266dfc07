//! The page: all orders, or the one in its address, such as `/?order=order_…`.

use opaque_id_core::External;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Document, Response, UrlSearchParams, Window, window};

use crate::{Order, OrderView};

type Result<T = ()> = std::result::Result<T, JsValue>;

#[wasm_bindgen(start)]
async fn start() -> Result {
    let window = window().ok_or("no window")?;
    let document = window.document().ok_or("no document")?;
    let orders: Vec<OrderView> = get(&window, "/orders").await?;
    for order in orders {
        let line = document.create_element("li")?;
        line.set_text_content(Some(&format!("{}: {}", order.id, order.item)));
        element(&document, "orders")?.append_child(&line)?;
    }
    let query = UrlSearchParams::new_with_str(&window.location().search()?)?;
    if let Some(text) = query.get("order") {
        let found = match text.parse::<External<Order>>() {
            Ok(id) => get::<OrderView>(&window, &format!("/orders/{id}")).await?.item,
            // The server is not asked, because it cannot have an order with this id.
            Err(error) => error.to_string(),
        };
        element(&document, "order")?.set_text_content(Some(&found));
    }
    Ok(())
}

fn element(document: &Document, id: &str) -> Result<web_sys::Element> {
    Ok(document.get_element_by_id(id).ok_or(format!("no element {id}"))?)
}

async fn get<T: DeserializeOwned>(window: &Window, path: &str) -> Result<T> {
    let response: Response = JsFuture::from(window.fetch_with_str(path)).await?.dyn_into()?;
    let body = JsFuture::from(response.text()?).await?;
    if !response.ok() {
        return Err(body);
    }
    let body = body.as_string().unwrap_or_default();
    Ok(serde_json::from_str(&body).map_err(|error| error.to_string())?)
}
