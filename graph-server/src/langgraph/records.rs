//! The stored objects of the API. Their fields have the names and formats of the API.

mod assistant;
mod cron;
mod run;
mod thread;

pub(super) use self::{
    assistant::{ASSISTANT_FIELDS, ASSISTANT_SORT_FIELDS, Assistant, AssistantVersion},
    cron::{CRON_FIELDS, CRON_SORT_FIELDS, Cron},
    run::{RUN_FIELDS, Run, RunStatus},
    thread::{THREAD_FIELDS, THREAD_SORT_FIELDS, Thread, ThreadStatus, ThreadTtl, TtlStrategy},
};
