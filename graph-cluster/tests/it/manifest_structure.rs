//! The structure of the manifests in `deploy`: they are YAML, their images have versions, and they refer only
//! to names that they define.

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use crate::manifests::{COMPOSE, KUBERNETES, KUBERNETES_RESTATE};

fn documents(manifest: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(manifest).expect("a manifest is YAML")
}

/// Returns the items of a list, which may be missing.
fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    items(list).iter().filter_map(Value::as_str)
}

/// Returns the names of the objects in a list.
fn names(list: &Value) -> BTreeSet<&str> {
    items(list).iter().filter_map(|it| it["name"].as_str()).collect()
}

/// Checks that an image has a tag with a version.
fn check_image(image: &Value) {
    let image = image.as_str().expect("a container has an image");
    let name = image.rsplit('/').next().unwrap_or(image);
    let (_, tag) = name.split_once(':').expect("an image has a tag");
    assert!(tag.starts_with(|it: char| it.is_ascii_digit()), "{image}");
}

#[test]
fn kubernetes_objects_refer_only_to_defined_names() {
    for manifest in [KUBERNETES, KUBERNETES_RESTATE] {
        let objects = documents(manifest);
        let (deployments, others): (Vec<_>, Vec<_>) =
            objects.iter().partition(|it| it["kind"] == "Deployment");
        let pods: Vec<&Value> = deployments.iter().map(|it| &it["spec"]["template"]).collect();
        for object in &objects {
            assert!(object["apiVersion"].is_string(), "{object}");
            assert!(object["metadata"]["name"].is_string(), "{object}");
        }
        for deployment in &deployments {
            let selected = &deployment["spec"]["selector"]["matchLabels"];
            assert_eq!(selected, &deployment["spec"]["template"]["metadata"]["labels"]);
            check_pod(&deployment["spec"]["template"]["spec"]);
        }
        for object in others {
            // The selector of a service is the labels. That of a disruption budget contains them in `matchLabels`.
            let selector = &object["spec"]["selector"];
            let labels = selector.get("matchLabels").unwrap_or(selector);
            let pod = pods.iter().find(|it| &it["metadata"]["labels"] == labels);
            let pod = pod.unwrap_or_else(|| panic!("{object} selects no pod"));
            let ports = names(&pod["spec"]["containers"][0]["ports"]);
            for port in items(&object["spec"]["ports"]) {
                let target = port["targetPort"].as_str().expect("a service names its port");
                assert!(ports.contains(target), "{object}");
            }
        }
    }
}

fn check_pod(pod: &Value) {
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod}");
    let volumes = names(&pod["volumes"]);
    for container in items(&pod["containers"]) {
        check_image(&container["image"]);
        assert!(container["resources"]["limits"]["memory"].is_string(), "{container}");
        // A container that listens on a port has a readiness probe for one of its ports.
        let (ports, probe) = (names(&container["ports"]), &container["readinessProbe"]);
        assert_eq!(ports.is_empty(), probe.is_null(), "{container}");
        let mut probed =
            ["tcpSocket", "httpGet"].iter().filter_map(|it| probe[*it]["port"].as_str());
        assert!(probed.all(|it| ports.contains(it)), "{container}");
        let variables = names(&container["env"]);
        for argument in strings(&container["args"]) {
            let variable = argument.strip_prefix("$(").and_then(|it| it.strip_suffix(')'));
            assert!(variable.is_none_or(|it| variables.contains(it)), "{argument}");
        }
        for mounted in names(&container["volumeMounts"]) {
            assert!(volumes.contains(mounted), "{mounted}");
        }
    }
}

#[test]
fn compose_services_refer_only_to_defined_names() {
    let documents = documents(COMPOSE);
    let [compose] = &documents[..] else { panic!("the manifest is one document") };
    let services = compose["services"].as_object().expect("Compose starts services");
    for (name, service) in services {
        check_image(&service["image"]);
        for kind in ["networks", "secrets"] {
            for used in strings(&service[kind]) {
                assert!(compose[kind].get(used).is_some(), "{name} uses {used} of {kind}");
            }
        }
        for volume in strings(&service["volumes"]) {
            let source = volume.split(':').next().unwrap_or_default();
            let exists = match source.strip_prefix("./") {
                Some(file) => {
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file).is_file()
                }
                None => compose["volumes"].get(source).is_some(),
            };
            assert!(exists, "{name} mounts {volume}");
        }
        let awaited = service["depends_on"].as_object().into_iter().flatten();
        let awaited = awaited.map(|(service, _)| service.as_str());
        let called = strings(&service["command"]).filter_map(|it| it.strip_prefix("http://"));
        let balanced = service["environment"]["WORKERS"].as_str();
        let hosts = called.chain(balanced).filter_map(|it| it.split(':').next());
        for used in awaited.chain(hosts) {
            assert!(services.contains_key(used), "{name} needs the service {used}");
        }
    }
}
