//! Builds the guest images. This test runs only nightly, because it downloads packages and takes minutes.

use std::{fs, path::Path, process::Command};

use sandbox_vm::image;

const FILES: [&str; 4] = ["vmlinux", "base.cpio", "python.cpio", "manifest.json"];

#[test]
fn image_build_is_reproducible_and_cached() {
    if !test_support::is_nightly() {
        return test_support::report_nightly_only("it downloads packages and takes minutes");
    }
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|it| dir.path().join(it));
    let packages = image::build(&one).unwrap();
    // Reuse the packages that the first build downloaded.
    fs::create_dir_all(&two).unwrap();
    fs::rename(one.join("packages"), two.join("packages")).unwrap();
    assert_eq!(image::build(&two).unwrap(), packages);
    for name in FILES {
        let same = fs::read(one.join(name)).unwrap() == fs::read(two.join(name)).unwrap();
        assert!(same, "{name} differs between the builds");
    }
    let when = |dir: &Path| fs::metadata(dir.join("vmlinux")).unwrap().modified().unwrap();
    let before = when(&two);
    assert_eq!(image::build(&two).unwrap(), packages);
    assert_eq!(when(&two), before, "the image was rebuilt");
    fs::write(two.join("base.cpio"), "corrupted").unwrap();
    image::build(&two).unwrap();
    assert_eq!(fs::read(one.join("base.cpio")).unwrap(), fs::read(two.join("base.cpio")).unwrap());
    check_program_alone(dir.path(), &one, &two);
}

/// Checks that the program builds the same images outside its checkout and with an empty environment.
fn check_program_alone(dir: &Path, one: &Path, two: &Path) {
    let (program, three) = (dir.join("sandbox-vm"), dir.join("three"));
    fs::copy(env!("CARGO_BIN_EXE_sandbox-vm"), &program).unwrap();
    fs::create_dir_all(&three).unwrap();
    fs::rename(two.join("packages"), three.join("packages")).unwrap();
    let mut build = Command::new(program);
    build.args(["image", "build"]).arg(&three).current_dir(dir);
    let output = build.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in FILES {
        let same = fs::read(one.join(name)).unwrap() == fs::read(three.join(name)).unwrap();
        assert!(same, "{name} differs between the builds");
    }
}
