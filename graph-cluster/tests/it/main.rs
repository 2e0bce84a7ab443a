//! Runs the demonstration graph on real worker processes, with a real PostgreSQL server and, if it is installed, a real
//! Restate server. The scenarios run with both schedulers, unless a comment says why one of them does not apply.
#![expect(clippy::print_stdout, reason = "test code, including helper functions")]

mod answers;
mod cluster;
mod conformance;
mod embedded;
mod fan_out;
mod identity;
#[path = "../../src/bin/cluster-demo/job.rs"]
mod job;
mod kill;
mod local;
mod local_worker;
mod manifest_structure;
mod manifests;
mod operations;
mod outage;
mod pause;
mod proxy;
mod replicas;
mod restate_server;
mod scenarios;
mod server;
mod submission;
mod times;
mod tls;
mod upgrade;
mod versions;
mod worker_process;

/// Defines one test per scenario for a scheduler.
macro_rules! suite {
    ($module:ident, $kind:ident, [$($path:ident :: $name:ident),* $(,)?]) => {
        mod $module {
            use crate::cluster::{Cluster, SchedulerKind};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if let Some(cluster) = Cluster::start(SchedulerKind::$kind).await {
                        crate::$path::$name(&cluster).await;
                    }
                }
            )*
        }
    };
}

/// Defines the tests of both schedulers. Each list of scenarios ends with a comma.
macro_rules! suites {
    (both: [$($both:tt)*], postgres_queue: [$($postgres:tt)*], restate: [$($restate:tt)*]) => {
        suite!(postgres_queue, Postgres, [$($both)* $($postgres)*]);
        suite!(restate, Restate, [$($both)* $($restate)*]);
    };
}

suites!(
    both: [
        scenarios::result_and_events_equal_a_local_run,
        scenarios::run_does_not_wait_for_a_reader,
        scenarios::starting_twice_runs_once,
        scenarios::runs_of_a_thread_execute_one_after_the_other,
        scenarios::interrupted_run_holds_no_worker_and_resumes,
        scenarios::queued_and_running_runs_are_cancelled,
        scenarios::cancellation_during_the_last_step_takes_effect,
        scenarios::failed_run_reports_its_error,
        scenarios::draining_worker_hands_its_run_over,
        times::delayed_run_does_not_block_its_thread,
        times::sleeping_run_holds_no_worker_and_continues,
        times::sleeping_run_is_cancelled_at_once,
        times::fork_repeats_the_steps_after_a_checkpoint,
        kill::killed_workers_lose_nothing,
        kill::workers_killed_during_a_statement_lose_nothing,
        kill::cut_off_worker_cannot_write,
        kill::cancelling_the_run_of_a_cut_off_worker_frees_its_thread,
        kill::step_longer_than_the_lease_ends,
        kill::leg_that_crashes_its_workers_fails,
        fan_out::wide_step_runs_on_several_workers,
        fan_out::spread_tasks_have_the_trace_of_a_local_run,
        fan_out::input_may_contain_nul_characters,
        fan_out::small_steps_stay_on_the_worker_of_the_run,
        fan_out::pooled_nodes_run_only_on_workers_of_their_pool,
        fan_out::cancelling_a_run_stops_its_tasks_on_other_workers,
        fan_out::workers_share_the_tasks_of_a_step,
        fan_out::task_whose_messages_are_rejected_fails,
        fan_out::run_whose_tasks_cannot_be_read_fails,
        fan_out::suspended_worker_does_not_repeat_its_tasks,
        fan_out::draining_worker_hands_its_tasks_over,
        fan_out::killed_workers_of_tasks_lose_nothing,
        embedded::task_that_emits_and_journals_does_not_block,
        embedded::panic_outside_the_node_fails_the_run,
        embedded::failed_run_with_a_command_is_resumed,
        answers::answer_is_not_used_for_the_next_interrupt,
        answers::answer_at_the_newest_checkpoint_is_not_used_for_the_next_interrupt,
        versions::run_stays_on_its_version,
        versions::run_migrates_to_a_version_that_continues_its_own,
        versions::tasks_are_executed_by_workers_of_their_version,
        upgrade::executing_run_moves_to_the_new_version,
        upgrade::executing_run_stays_on_its_version,
        operations::runs_of_a_limited_tenant_wait,
        operations::limit_of_a_tenant_holds_for_concurrent_claims,
        operations::runs_are_deleted_unless_they_are_active,
        operations::status_and_metrics_show_what_runs_where,
        replicas::killed_servers_lose_nothing,
        replicas::servers_killed_during_a_statement_lose_nothing,
        server::streams_equal_those_of_a_local_run_and_can_be_resumed,
        server::interrupts_errors_and_forks_equal_those_of_a_local_run,
        server::sleeping_thread_has_no_interrupts,
        server::cancelling_a_run_cancels_it_on_its_worker,
        server::another_replica_continues_the_stream_without_repetitions,
        server::the_owner_of_a_run_is_its_tenant_and_its_trace_context_reaches_the_worker,
        outage::runs_survive_a_cut_network,
        outage::runs_survive_a_network_that_forwards_nothing,
        outage::runs_survive_a_slow_network,
    ],
    postgres_queue: [
        // Independent of the scheduler: a worker performs this check before it uses its scheduler.
        kill::worker_without_a_checkpointer_in_its_database_does_not_start,
        // Independent of the scheduler: a worker performs this check before it uses its scheduler.
        versions::graph_cannot_be_registered_twice_with_the_same_version,
        // No worker executes the run, and a Restate server accepts no run before a worker is registered.
        operations::concurrent_updates_of_a_value_are_all_applied,
        // No worker executes the runs, and a Restate server accepts no run before a worker is registered.
        operations::old_tables_are_updated_and_newer_ones_are_rejected,
        // No run is started.
        operations::status_server_limits_connections_and_requires_its_key,
        // The names of servers in the commands for Restate exist only in their containers.
        manifests::commands_of_the_manifests_run,
    ],
    restate: [
        // No server calls the workers of `PostgresQueue`.
        identity::worker_with_the_key_of_its_server_accepts_calls,
        // With `PostgresQueue`, storing a run submits it.
        submission::run_whose_client_died_before_its_submission_is_executed,
    ]
);

// These tests are about workers and clients of Restate, but need no Restate server.
suite!(
    without_restate_server,
    Postgres,
    [
        identity::worker_with_a_key_rejects_unsigned_calls,
        identity::worker_with_an_invalid_key_does_not_start,
        submission::run_of_another_scheduler_is_rejected,
    ]
);
