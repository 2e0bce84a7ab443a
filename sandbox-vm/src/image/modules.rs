//! The kernel modules of a guest, in the order in which it loads them.

/// Drivers for the channel of a guest to the host and for its source of randomness.
pub(super) const DRIVERS: [&str; 3] = ["virtio_mmio", "virtio_console", "virtio_rng"];

/// A kernel module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    /// Content of the module's file.
    pub(super) content: Vec<u8>,
}

/// Reads modules and the modules that they depend on. Each module comes after its dependencies.
///
/// The dependencies are read from the modules, because they differ between versions of the kernel.
pub(super) fn read_in_load_order<E>(
    names: &[&str],
    read: &impl Fn(&str) -> Result<Vec<u8>, E>,
) -> Result<Vec<Module>, E> {
    let mut modules = Vec::new();
    for name in names {
        add_after_dependencies(name, read, &mut modules)?;
    }
    Ok(modules)
}

fn add_after_dependencies<E>(
    name: &str,
    read: &impl Fn(&str) -> Result<Vec<u8>, E>,
    modules: &mut Vec<Module>,
) -> Result<(), E> {
    if modules.iter().any(|it| it.name == name) {
        return Ok(());
    }
    let content = read(name)?;
    for dependency in dependencies(&content) {
        add_after_dependencies(&dependency, read, modules)?;
    }
    modules.push(Module { name: name.to_owned(), content });
    Ok(())
}

/// Returns the names in the entry `depends=` of a module. Each entry of a module ends with a zero byte.
fn dependencies(module: &[u8]) -> Vec<String> {
    let mut entries = module.split(|&byte| byte == 0);
    let names = entries.find_map(|it| it.strip_prefix(b"depends=")).unwrap_or_default();
    let names = String::from_utf8_lossy(names);
    names.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        format!("\u{7f}ELF\0license=GPL\0depends={depends}\0name=any\0").into_bytes()
    }

    /// Returns the load order of [`DRIVERS`] for a kernel in which `virtio` and `virtio_ring` have these dependencies.
    fn load_order(virtio: &str, virtio_ring: &str) -> Vec<String> {
        let read = |name: &str| -> Result<Vec<u8>, String> {
            match name {
                "virtio" => Ok(module(virtio)),
                "virtio_ring" => Ok(module(virtio_ring)),
                _ => Ok(module("virtio,virtio_ring")),
            }
        };
        let modules = read_in_load_order(&DRIVERS, &read).unwrap();
        modules.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn dependencies_come_first_in_every_kernel_version() {
        let drivers = ["virtio_mmio", "virtio_console", "virtio_rng"];
        let of_6_1_100 = load_order("", "virtio");
        assert_eq!(of_6_1_100, [&["virtio", "virtio_ring"], &drivers[..]].concat());
        let of_6_1_192 = load_order("virtio_ring", "");
        assert_eq!(of_6_1_192, [&["virtio_ring", "virtio"], &drivers[..]].concat());
    }

    #[test]
    fn missing_dependency_is_an_error() {
        let read = |name: &str| match name {
            "virtio_mmio" => Ok(module("virtio")),
            _ => Err(name.to_owned()),
        };
        assert_eq!(read_in_load_order(&["virtio_mmio"], &read), Err("virtio".to_owned()));
    }
}
