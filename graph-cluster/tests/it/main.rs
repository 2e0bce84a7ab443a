//! Runs the demonstration graph on real worker processes, with a real PostgreSQL server and, if it is installed, a real
//! Restate server. The scenarios run with each scheduler, except those that depend on the lease of `PostgresQueue`.
#![expect(clippy::print_stdout, reason = "test code, including helper functions")]

mod answers;
mod cluster;
mod conformance;
mod embedded;
mod fan_out;
#[cfg(feature = "restate")]
mod identity;
#[path = "../../src/bin/cluster-demo/job.rs"]
mod job;
mod kill;
mod local;
mod manifest_structure;
mod manifests;
mod operations;
mod outage;
mod pause;
mod proxy;
#[cfg(feature = "restate")]
mod replicas;
mod restate_server;
mod scenarios;
mod server;
#[cfg(feature = "restate")]
mod submission;
mod times;
mod tls;
mod upgrade;
mod versions;
mod worker_process;

use self::cluster::SchedulerKind;

/// Defines one test per scenario for a scheduler.
macro_rules! suite {
    ($module:ident, $kind:expr, [$($path:ident :: $name:ident),* $(,)?]) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if let Some(cluster) = crate::cluster::Cluster::start($kind).await {
                        crate::$path::$name(&cluster).await;
                    }
                }
            )*
        }
    };
}

/// Defines the suites of both schedulers: the scenarios that run with each of them, and those that run with one of them.
macro_rules! suites {
    ([$($both:tt)*], [$($postgres:tt)*], [$($restate:tt)*]) => {
        suite!(postgres_queue, super::SchedulerKind::Postgres, [$($both)* $($postgres)*]);
        #[cfg(feature = "restate")]
        suite!(restate, super::SchedulerKind::Restate, [$($both)* $($restate)*]);
    };
}

suites!(
    [
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
        fan_out::wide_step_runs_on_several_workers,
        fan_out::spread_tasks_have_the_trace_of_a_local_run,
        fan_out::small_steps_stay_on_the_worker_of_the_run,
        fan_out::pooled_nodes_run_only_on_workers_of_their_pool,
        fan_out::cancelling_a_run_stops_its_tasks_on_other_workers,
        fan_out::draining_worker_hands_its_tasks_over,
        fan_out::killed_workers_of_tasks_lose_nothing,
        operations::limit_of_a_tenant_holds_for_concurrent_claims,
    ],
    [
        kill::cut_off_worker_cannot_write,
        kill::cancelling_the_run_of_a_cut_off_worker_frees_its_thread,
        kill::leg_that_crashes_its_workers_fails,
        kill::worker_without_a_checkpointer_in_its_database_does_not_start,
        fan_out::input_may_contain_nul_characters,
        fan_out::workers_share_the_tasks_of_a_step,
        fan_out::task_whose_messages_are_rejected_fails,
        fan_out::run_whose_tasks_cannot_be_read_fails,
        fan_out::suspended_worker_does_not_repeat_its_tasks,
        embedded::task_that_emits_and_journals_does_not_block,
        embedded::panic_outside_the_node_fails_the_run,
        embedded::run_with_a_command_that_failed_is_resumed,
        answers::answer_is_not_used_for_the_next_interrupt,
        answers::answer_at_the_newest_checkpoint_is_not_used_for_the_next_interrupt,
        versions::run_stays_on_its_version,
        versions::run_migrates_to_a_version_that_continues_its_own,
        versions::tasks_are_executed_by_workers_of_their_version,
        versions::graph_cannot_be_registered_twice_with_the_same_version,
        upgrade::executing_run_moves_to_the_new_version,
        upgrade::executing_run_stays_on_its_version,
        operations::runs_of_a_limited_tenant_wait,
        operations::runs_are_deleted_unless_they_are_active,
        operations::concurrent_updates_of_a_value_are_all_applied,
        operations::old_tables_are_updated_and_newer_ones_are_refused,
        operations::status_and_metrics_show_what_runs_where,
        operations::status_server_limits_connections_and_requires_its_key,
        manifests::commands_of_the_manifests_run,
    ],
    [
        identity::worker_with_the_key_of_its_server_accepts_calls,
        replicas::killed_servers_lose_nothing,
        replicas::servers_killed_during_a_statement_lose_nothing,
        submission::run_whose_client_died_before_its_submission_is_executed,
    ]
);

// Retries of a call reach other workers only if a load balancer distributes the calls.
#[cfg(feature = "restate")]
suite!(
    restate_cluster,
    super::SchedulerKind::RestateCluster,
    [
        versions::run_stays_on_its_version,
        versions::run_migrates_to_a_version_that_continues_its_own,
    ]
);

// These tests need the feature `restate` for its HTTP client or its workers, but no Restate server.
#[cfg(feature = "restate")]
suite!(
    without_restate_server,
    super::SchedulerKind::Postgres,
    [
        replicas::killed_servers_lose_nothing,
        replicas::servers_killed_during_a_statement_lose_nothing,
        identity::worker_with_a_key_refuses_unsigned_calls,
        identity::worker_with_an_invalid_key_does_not_start,
        submission::run_of_another_scheduler_is_refused,
    ]
);
