//! The configuration of a guest for `runsc`, in the format of the Open Container Initiative.

use std::path::Path;

use serde_json::{Value, json};

use crate::spec::WORKSPACE;

/// Name of the guest's root directory, next to the configuration file.
pub(super) const ROOT_DIR: &str = "root";

/// Capabilities that the agent needs until it has restricted itself: to change the owner of `/dev`, and to drop
/// capabilities.
const CAPABILITIES: [&str; 2] = ["CAP_CHOWN", "CAP_SETPCAP"];

/// Returns the configuration of a guest whose root is the directory [`ROOT_DIR`] in `base`, and whose agent is started
/// with the arguments `args`.
pub(super) fn config(base: &Path, args: [String; 2]) -> Value {
    let root = base.join(ROOT_DIR);
    let [mark, args] = args;
    let writable = |at: &str| {
        let source = root.join(at.trim_start_matches('/'));
        json!({
            "destination": at, "type": "bind", "source": source,
            "options": ["rw", "nosuid", "nodev"],
        })
    };
    let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|it| json!({ "type": it }));
    json!({
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": { "path": root, "readonly": true },
        "process": {
            "args": ["/agent", mark, args],
            "cwd": WORKSPACE,
            "env": [],
            "user": { "uid": 0, "gid": 0 },
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
            },
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc", "options": ["ro"] },
            // Without this entry, gVisor would mount the devices and settings of its kernel here.
            { "destination": "/sys", "type": "tmpfs", "source": "none", "options": ["mode=0000", "ro"] },
            { "destination": "/dev", "type": "tmpfs", "source": "dev", "options": ["mode=0755"] },
            writable(WORKSPACE),
            writable("/tmp"),
        ],
        "linux": {
            "namespaces": namespaces,
        },
    })
}
