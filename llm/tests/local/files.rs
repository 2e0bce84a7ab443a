//! Tests of the errors for unusable model files. Each error explains the cause and the fix.

use std::path::Path;

use candle_core::quantized::gguf_file::Value;
use llm::{ErrorKind, LocalModel};

use crate::tiny::Tiny;

#[track_caller]
fn check_path(path: &Path, expect: &str) {
    let error = LocalModel::open(path).unwrap_err();
    assert_eq!(error.kind, ErrorKind::File);
    assert!(!error.is_retryable());
    let message = error.message.replace(&path.display().to_string(), "FILE");
    assert!(message.starts_with(expect), "{message}");
}

#[track_caller]
fn check(tiny: &Tiny, expect: &str) {
    let (_folder, path) = tiny.write();
    check_path(&path, expect);
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

#[test]
fn invalid_files_are_rejected() {
    check_path(Path::new("/nowhere/it.gguf"), "FILE: No such file");
    check_path(Path::new(file!()).file_name().unwrap().as_ref(), "FILE: No such file");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.gguf");
    for bytes in [&b""[..], b"not a model", b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"] {
        std::fs::write(&path, bytes).unwrap();
        check_path(&path, "FILE is not a readable GGUF file");
    }
}

#[test]
fn the_trained_context_is_read_without_loading_the_model() {
    let (_folder, path) =
        Tiny::new("qwen2").with("qwen2.context_length", Value::U32(32768)).write();
    assert_eq!(LocalModel::trained_context(&path).unwrap(), 32768);
    let bytes = std::fs::read(&path).unwrap();
    // The weights are at the end of the file.
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(LocalModel::trained_context(&path).unwrap(), 32768);
    assert!(LocalModel::trained_context("/nowhere/it.gguf").is_err());
}

#[test]
fn truncated_files_are_rejected() {
    let (_folder, path) = Tiny::new("llama").write();
    let bytes = std::fs::read(&path).unwrap();
    for length in [100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = LocalModel::open(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::File, "{error}");
    }
}

#[test]
fn unsupported_networks_are_rejected() {
    check(
        &Tiny::new("mamba"),
        "FILE: the architecture `mamba` is not supported (supported: `llama` and `qwen2`)",
    );
    let experts = Tiny::new("llama").with("llama.expert_count", Value::U32(8));
    check(&experts, "FILE: mixtures of experts are not supported");
    let scaled = Tiny::new("llama").with("llama.rope.scaling.type", string("yarn"));
    check(&scaled, "FILE: scaled positions (`yarn`) are not supported");
    let uneven = Tiny::new("llama").with("llama.attention.head_count_kv", Value::U32(3));
    check(&uneven, "FILE: inconsistent sizes: 4 query heads, 3 key heads, width 64");
}

#[test]
fn unsupported_tokenizers_are_rejected() {
    let sentences = Tiny::new("llama").with("tokenizer.ggml.model", string("llama"));
    check(&sentences, "FILE: the tokenizer `llama` is not supported (supported: `gpt2`");
    let rules = Tiny::new("llama").with("tokenizer.ggml.pre", string("tekken"));
    check(&rules, "FILE: the pre-tokenizer `tekken` is not supported (supported: `qwen2`");
}

#[test]
fn unsupported_chat_templates_are_rejected() {
    let key = "tokenizer.chat_template";
    check(&Tiny::new("qwen2").without(key), "FILE: no chat template");
    let other = Tiny::new("qwen2").with(key, string("[INST] {{ content }} [/INST]"));
    check(&other, "FILE: unsupported chat template");
}

#[test]
fn missing_keys_are_named() {
    let keys = ["llama.block_count", "llama.context_length", "tokenizer.ggml.merges"];
    for key in keys {
        check(&Tiny::new("llama").without(key), &format!("FILE: `{key}` is missing"));
    }
    check(
        &Tiny::new("llama").without("blk.1.ffn_up.weight"),
        "FILE: weights `blk.1.ffn_up.weight`: ",
    );
}
