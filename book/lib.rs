//! The book's chapters as documentation tests: `cargo test -p book` compiles and runs every program in them.
//!
//! `cargo xtask book` renders the chapters. The tests in `tests` check their links and the table of contents.

#[cfg(doctest)]
mod chapters {
    macro_rules! chapter {
        ($name:ident, $file:literal) => {
            #[doc = include_str!(concat!("chapters/", $file))]
            mod $name {}
        };
    }

    chapter!(introduction, "introduction.md");
    chapter!(getting_started, "getting-started.md");
    chapter!(from_langgraph, "from-langgraph.md");
    chapter!(langgraph_issues, "langgraph-issues.md");
    chapter!(benchmarks, "benchmarks.md");
    chapter!(state, "state.md");
    chapter!(nodes, "nodes.md");
    chapter!(eager, "eager.md");
    chapter!(subgraphs, "subgraphs.md");
    chapter!(threads, "threads.md");
    chapter!(interrupts, "interrupts.md");
    chapter!(time_travel, "time-travel.md");
    chapter!(streaming, "streaming.md");
    chapter!(functional, "functional.md");
    chapter!(store, "store.md");
    chapter!(errors, "errors.md");
    chapter!(effects, "effects.md");
    chapter!(traces, "traces.md");
    chapter!(models, "models.md");
    chapter!(agents, "agents.md");
    chapter!(tools, "tools.md");
    chapter!(middleware, "middleware.md");
    chapter!(several_agents, "several-agents.md");
    chapter!(mcp, "mcp.md");
    chapter!(sandboxes, "sandboxes.md");
    chapter!(studio, "studio.md");
    chapter!(consulting, "consulting.md");
    chapter!(ablation, "ablation.md");
    chapter!(ablation_report, "ablation/scripted.md");
    chapter!(ablation_small_model, "ablation/small-model.md");
    chapter!(serving, "serving.md");
    chapter!(clients, "clients.md");
    chapter!(cluster, "cluster.md");
    chapter!(operations, "operations.md");
    chapter!(threat_model, "threat-model.md");
}

/// READMEs that their own crates cannot test, because the examples use crates that are not dependencies there.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../graph-core/README.md")]
    mod graph_core {}

    #[doc = include_str!("../graph-store/README.md")]
    mod graph_store {}

    #[doc = include_str!("../graph-trace/README.md")]
    mod graph_trace {}

    #[doc = include_str!("../llm/README.md")]
    mod llm {}

    #[doc = include_str!("../sandbox-vm/README.md")]
    mod sandbox_vm {}
}
