//! The studio: a web page for running and debugging the graphs of a server.
//!
//! The page is embedded in the program and uses only [LangGraph's API](crate::langgraph) of the same server. [`dev`]
//! starts a server with the page for development. Another server adds [`routes`] to its open routes; if the API
//! requires a key, the page asks for it.

mod dev;
mod page;

pub use self::{
    dev::{DevError, DevServer, dev},
    page::routes,
};
