//! Files that cannot be used say why, and what to do.

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

fn words(text: &str) -> Value {
    Value::String(text.into())
}

#[test]
fn what_is_no_model() {
    check_path(Path::new("/nowhere/it.gguf"), "FILE: No such file");
    check_path(Path::new(file!()).file_name().unwrap().as_ref(), "FILE: No such file");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.gguf");
    for bytes in [&b""[..], b"not a model", b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"] {
        std::fs::write(&path, bytes).unwrap();
        check_path(&path, "FILE is no GGUF file that can be read");
    }
}

#[test]
fn a_file_that_was_cut_off() {
    let (_folder, path) = Tiny::new("llama").write();
    let bytes = std::fs::read(&path).unwrap();
    for length in [100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let error = LocalModel::open(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::File, "{error}");
    }
}

#[test]
fn networks_of_another_kind() {
    check(
        &Tiny::new("mamba"),
        "FILE: holds a network of the kind `mamba`; `llama` and `qwen2` can be",
    );
    let experts = Tiny::new("llama").with("llama.expert_count", Value::U32(8));
    check(&experts, "FILE: a mixture of experts");
    let scaled = Tiny::new("llama").with("llama.rope.scaling.type", words("yarn"));
    check(&scaled, "FILE: its positions are scaled (`yarn`)");
    let uneven = Tiny::new("llama").with("llama.attention.head_count_kv", Value::U32(3));
    check(&uneven, "FILE: 4 heads of which 3 have keys do not share a width of 64");
}

#[test]
fn tokenizers_of_another_kind() {
    let sentences = Tiny::new("llama").with("tokenizer.ggml.model", words("llama"));
    check(&sentences, "FILE: its tokenizer is of the kind `llama`; `gpt2` (byte-level BPE)");
    let rules = Tiny::new("llama").with("tokenizer.ggml.pre", words("tekken"));
    check(&rules, "FILE: its tokenizer cuts words by the rules `tekken`; `qwen2`");
}

#[test]
fn conversations_of_another_kind() {
    let key = "tokenizer.chat_template";
    check(&Tiny::new("qwen2").without(key), "FILE: has no chat template");
    let other = Tiny::new("qwen2").with(key, words("[INST] {{ content }} [/INST]"));
    check(&other, "FILE: its chat template is none that is known here");
}

#[test]
fn what_is_missing_is_named() {
    let keys = ["llama.block_count", "llama.context_length", "tokenizer.ggml.merges"];
    for key in keys {
        check(&Tiny::new("llama").without(key), &format!("FILE: `{key}` is no"));
    }
    check(
        &Tiny::new("llama").without("blk.1.ffn_up.weight"),
        "FILE: weights `blk.1.ffn_up.weight`: ",
    );
}
