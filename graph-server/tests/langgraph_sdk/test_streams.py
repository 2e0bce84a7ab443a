"""Event streams."""

from support import SLOW, Case, data, names


class Streams(Case):
    async def test_values_show_every_step(self):
        events = await self.stream(await self.thread(), "tiny", input={"value": "x"})
        self.assertEqual(names(events), ["metadata"] + ["values"] * 3)
        self.assertEqual([it["value"] for it in data(events, "values")], ["x", "xa", "xab"])
        self.assertEqual(events[0].data["attempt"], 1)

    async def test_an_empty_list_of_modes_selects_values(self):
        events = await self.stream(None, "tiny", input={"value": "x"}, stream_mode=[])
        self.assertEqual(names(events), ["metadata"] + ["values"] * 3)

    async def test_updates_show_each_node(self):
        events = await self.stream(None, "tiny", input={"value": "x"}, stream_mode="updates")
        updates = data(events, "updates")
        self.assertEqual([list(it) for it in updates], [["a"], ["b"]])
        self.assertEqual(updates[0]["a"], {"value": "xa", "log": ["a"], "count": 1})

    async def test_several_modes_are_interleaved(self):
        events = await self.stream(
            None, "tiny", input={"value": "x"}, stream_mode=["values", "updates"]
        )
        expected = ["metadata", "values", "updates", "values", "updates", "values"]
        self.assertEqual(names(events), expected)

    async def test_custom_events_arrive(self):
        events = await self.stream(
            None, "slow", input={"steps": 3, "delay": 0}, stream_mode="custom"
        )
        self.assertEqual(data(events, "custom"), [{"tick": 1}, {"tick": 2}, {"tick": 3}])

    async def test_tasks_start_and_finish(self):
        events = await self.stream(None, "tiny", input={"value": "x"}, stream_mode="tasks")
        tasks = data(events, "tasks")
        self.assertEqual([it["name"] for it in tasks], ["a", "a", "b", "b"])
        self.assertEqual(tasks[0]["input"], {"value": "x", "log": [], "count": 0})
        self.assertEqual(tasks[0]["id"], tasks[1]["id"])
        self.assertEqual(tasks[1]["result"]["value"], "xa")

    async def test_checkpoints_form_a_chain(self):
        thread = await self.thread()
        events = await self.stream(thread, "tiny", input={"value": "x"}, stream_mode="checkpoints")
        checkpoints = data(events, "checkpoints")
        self.assertEqual([it["metadata"]["step"] for it in checkpoints], [-1, 0, 1, 2])
        self.assertEqual([it["next"] for it in checkpoints], [["__start__"], ["a"], ["b"], []])
        for parent, child in zip(checkpoints, checkpoints[1:]):
            self.assertEqual(child["parent_config"], parent["config"])
        task = checkpoints[1]["tasks"][0]
        tasks = data(await self.stream(None, "tiny", input={"value": "x"}, stream_mode="tasks"), "tasks")
        self.assertEqual(len(task["id"]), len(tasks[0]["id"]))

    async def test_debug_contains_checkpoints_and_tasks(self):
        events = await self.stream(None, "tiny", input={"value": "x"}, stream_mode="debug")
        kinds = [it["type"] for it in data(events, "debug")]
        expected = ["checkpoint", "checkpoint"]
        expected += ["task", "task_result", "checkpoint"] * 2
        self.assertEqual(kinds, expected)

    async def test_events_trace_the_graph_and_its_nodes(self):
        events = await self.stream(None, "tiny", input={"value": "x"}, stream_mode="events")
        traced = [(it["event"], it["name"]) for it in data(events, "events")]
        self.assertEqual(traced[0], ("on_chain_start", "tiny"))
        self.assertEqual(traced[-1], ("on_chain_end", "tiny"))
        self.assertIn(("on_chain_end", "a"), traced)

    async def test_events_of_subgraphs_carry_their_namespace(self):
        events = await self.stream(
            None, "parent", input={"log": []}, stream_mode="updates", stream_subgraphs=True
        )
        expected = ["metadata", "updates", "updates|child", "updates|child", "updates", "updates"]
        self.assertEqual(names(events), expected)

    async def test_events_of_subgraphs_are_left_out_by_default(self):
        events = await self.stream(None, "parent", input={"log": []}, stream_mode="updates")
        self.assertEqual([list(it) for it in data(events, "updates")], [["p0"], ["child"], ["p9"]])

    async def test_messages_arrive_in_pieces(self):
        messages = [{"role": "user", "content": "hi there"}]
        events = await self.stream(
            None, "chat", input={"messages": messages}, stream_mode="messages-tuple"
        )
        pieces = data(events, "messages")
        self.assertGreater(len(pieces), 1)
        self.assertEqual("".join(it[0]["content"] for it in pieces), "you said hi there")
        self.assertEqual({it[1]["langgraph_node"] for it in pieces}, {"model"})

    async def test_messages_are_accumulated(self):
        messages = [{"role": "user", "content": "hi there"}]
        events = await self.stream(
            None, "chat", input={"messages": messages}, stream_mode="messages"
        )
        self.assertEqual(names(events)[:2], ["metadata", "messages/metadata"])
        partial = data(events, "messages/partial")
        self.assertEqual(partial[-1][0]["content"], "you said hi there")
        self.assertTrue(partial[-1][0]["content"].startswith(partial[0][0]["content"]))

    async def test_a_failed_run_ends_with_an_error_event(self):
        events = await self.stream(None, "fail", input={"log": []}, stream_mode="updates")
        self.assertEqual(names(events), ["metadata", "updates", "error"])
        self.assertEqual(events[-1].data, {"error": "ValueError", "message": "boom"})

    async def test_event_ids_are_unique_and_ordered(self):
        events = await self.stream(
            None,
            "slow",
            input={"steps": 20, "delay": 0},
            stream_mode=["values", "tasks", "debug", "custom"],
            stream_resumable=True,
        )
        ids = [tuple(int(part) for part in it.id.split("-")) for it in events]
        self.assertEqual(ids, sorted(set(ids)))

    async def test_a_stream_resumes_after_the_last_event(self):
        thread = await self.thread()
        events = await self.stream(
            thread, "tiny", input={"value": "x"}, stream_mode=["values", "tasks"], stream_resumable=True
        )
        run = events[0].data["run_id"]
        for seen in range(len(events)):
            rest = [
                it
                async for it in self.runs.join_stream(
                    thread, run, last_event_id=events[seen].id
                )
            ]
            self.assertEqual(rest, events[seen + 1 :])
        everything = [it async for it in self.runs.join_stream(thread, run, last_event_id="-1")]
        self.assertEqual(everything, events)

    async def test_a_running_run_can_be_joined(self):
        thread = await self.thread()
        run = await self.runs.create(
            thread, "slow", input={"steps": 5, "delay": 0.02}, stream_mode=["custom", "values"]
        )
        events = [it async for it in self.runs.join_stream(thread, run["run_id"])]
        self.assertEqual(data(events, "values")[-1]["ticks"], 5)
        self.assertEqual(await self.status(thread, run["run_id"]), "success")

    async def test_join_honours_all_stream_modes(self):
        thread = await self.thread()
        run = await self.runs.create(
            thread, "slow", input={"steps": 5, "delay": 0.02}, stream_mode=["custom", "values", "tasks"]
        )
        modes = ["custom", "values"]
        events = [
            it async for it in self.runs.join_stream(thread, run["run_id"], stream_mode=modes)
        ]
        self.assertEqual(set(names(events)) - {"metadata"}, {"custom", "values"})

    async def test_a_finished_run_has_no_new_events(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "tiny", input={"value": "x"})
        await self.runs.join(thread, run["run_id"])
        self.assertEqual([it async for it in self.runs.join_stream(thread, run["run_id"])], [])

    async def test_the_run_is_known_before_its_first_event(self):
        created = []
        thread = await self.thread()
        stream = self.runs.stream(
            thread, "tiny", input={"value": "x"}, on_run_created=created.append
        )
        events = [it async for it in stream]
        self.assertEqual(created[0]["run_id"], events[0].data["run_id"])
        self.assertEqual(created[0]["thread_id"], thread)

    async def test_disconnecting_can_cancel_the_run(self):
        thread = await self.thread()
        stream = self.runs.stream(
            thread, "slow", input=SLOW, stream_mode="custom", on_disconnect="cancel"
        )
        async for event in stream:
            if event.event == "custom":
                break
        await stream.aclose()
        run = (await self.runs.list(thread))[0]["run_id"]
        await self.runs.join(thread, run)
        self.assertEqual(await self.status(thread, run), "interrupted")

    async def test_a_thread_streams_the_events_of_its_runs(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        await self.runs.wait(thread, "tiny", input={"value": "y"})
        events = []
        stream = await self.threads.join_stream(thread, last_event_id="-1")
        async for event in stream:
            events.append(event)
            if len([it for it in events if it.data and it.data.get("status") == "run_done"]) == 2:
                break
        values = [it["value"] for it in data(events, "values")]
        self.assertEqual(values, ["x", "xa", "xab", "y", "ya", "yab"])
