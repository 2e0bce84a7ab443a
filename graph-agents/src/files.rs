//! Files in an agent's state.

mod middleware;
mod path;
mod snapshot;

pub use middleware::FileTools;
#[cfg(feature = "sandbox")]
pub(crate) use path::file_path;
pub(crate) use snapshot::{FILES, changes, read_files};
#[cfg(feature = "sandbox")]
pub(crate) use snapshot::{Files, files_field};
