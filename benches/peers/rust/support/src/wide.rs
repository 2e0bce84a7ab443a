//! The nodes of the wide state, for crates that derive an update type from a state type.

/// Defines the functions `one` to `six`, which compute the updates of the wide state, and its answer and reducer.
///
/// Expects the types `Wide`, the state, and `WideUpdate` in scope. The derives of the crates give the fields of an
/// update different types. `$reduced` converts the value of a field with a reducer to such a type, and `$optional`
/// converts an optional value.
#[macro_export]
macro_rules! wide_nodes {
    ($reduced:path, $optional:path) => {
        type People = std::collections::BTreeMap<String, $crate::data::Shared<serde_json::Value>>;

        fn merge(people: &mut People, more: People) {
            people.extend(more);
        }

        fn answer(wide: Wide) -> String {
            let Wide { messages, trigger_events, categorizations, responses, .. } = wide;
            $crate::data::wide_answer(
                messages.len(),
                trigger_events.len(),
                categorizations.len(),
                responses.len(),
            )
        }

        fn one(wide: &Wide) -> WideUpdate {
            WideUpdate {
                trigger_events: $reduced(wide.messages.clone()),
                primary_issue_medium: $optional(Some($crate::data::wide_text(wide.size))),
                ..WideUpdate::default()
            }
        }

        fn two(wide: &Wide) -> WideUpdate {
            let last = wide.trigger_events.last().cloned();
            let autoresponse = $optional(last.clone());
            WideUpdate { autoresponse, issue: $optional(last), ..WideUpdate::default() }
        }

        fn three(wide: &Wide) -> WideUpdate {
            let rules = wide.autoresponse.iter().cloned().collect();
            WideUpdate { relevant_rules: Some(rules), ..WideUpdate::default() }
        }

        fn four(wide: &Wide) -> WideUpdate {
            let events = &wide.trigger_events;
            WideUpdate {
                categorizations: $reduced(events.clone()),
                responses: $reduced(events.clone()),
                memory_docs: Some(events.clone()),
                ..WideUpdate::default()
            }
        }

        fn five(wide: &Wide) -> WideUpdate {
            let last = wide.categorizations.last().cloned();
            let people = last.as_ref().map_or_else(People::new, |it| (*it.0).clone());
            let text = || $optional(Some($crate::data::wide_text(wide.size)));
            WideUpdate {
                user_info: $optional(last.clone()),
                crm_info: $optional(last),
                email_thread_id: text(),
                bot_id: text(),
                slack_participants: $reduced(people.clone()),
                notified_assignees: $reduced(people),
                ..WideUpdate::default()
            }
        }

        fn six(wide: &Wide) -> WideUpdate {
            WideUpdate { messages: $reduced(wide.responses.clone()), ..WideUpdate::default() }
        }
    };
}
