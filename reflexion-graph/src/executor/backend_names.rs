//! Names of the sandbox back ends.

/// Names of the supported back ends.
#[cfg(not(feature = "docker"))]
pub const BACKENDS: &[&str] = &["jail", "gvisor", "microvm", "in-process"];
/// Names of the supported back ends.
#[cfg(feature = "docker")]
pub const BACKENDS: &[&str] = &["jail", "gvisor", "microvm", "docker", "in-process"];
