"""Runs and their results."""

import asyncio

from support import Case, new_id


class Runs(Case):
    async def test_wait_returns_the_final_values(self):
        values = await self.runs.wait(await self.thread(), "tiny", input={"value": "x"})
        self.assertEqual(values, {"value": "xab", "log": ["a", "b"], "count": 2})

    async def test_a_second_run_continues_the_thread(self):
        thread = await self.thread()
        await self.runs.wait(thread, "tiny", input={"value": "x"})
        values = await self.runs.wait(thread, "tiny", input={"value": "y"})
        self.assertEqual(values, {"value": "yab", "log": ["a", "b"] * 2, "count": 4})

    async def test_sends_keep_their_order(self):
        values = await self.runs.wait(None, "fanout", input={"items": [3, 1, 2]})
        self.assertEqual(values, {"items": [3, 1, 2], "results": [9, 1, 4], "total": 14})

    async def test_a_subgraph_returns_its_whole_log(self):
        values = await self.runs.wait(None, "parent", input={"log": []})
        self.assertEqual(values, {"log": ["p0", "p0", "c1", "c2", "p9"]})

    async def test_a_command_chooses_the_next_node(self):
        for n, node in [(2, "even"), (3, "odd")]:
            values = await self.runs.wait(None, "route", input={"n": n})
            self.assertEqual(values["path"], ["decide", node])

    async def test_chat_answers_a_message(self):
        messages = [{"role": "user", "content": "hi there"}]
        values = await self.runs.wait(None, "chat", input={"messages": messages})
        self.assertEqual([it["type"] for it in values["messages"]], ["human", "ai"])
        self.assertEqual(values["messages"][1]["content"], "you said hi there")

    async def test_context_reaches_the_node(self):
        values = await self.runs.wait(None, "ctx", input={"name": "ada"}, context={"greeting": "hi"})
        self.assertEqual(values, {"name": "ada", "out": "hi ada", "user": "-"})

    async def test_configurable_values_reach_the_node(self):
        config = {"configurable": {"user": "u7"}}
        values = await self.runs.wait(None, "ctx", input={"name": "ada"}, config=config)
        self.assertEqual(values, {"name": "ada", "out": "hello ada", "user": "u7"})

    async def test_context_and_configurable_values_exclude_each_other(self):
        config = {"configurable": {"user": "u7"}}
        with self.fails_with(400):
            await self.runs.wait(
                None, "ctx", input={"name": "a"}, config=config, context={"greeting": "x"}
            )

    async def test_invalid_context_is_rejected(self):
        with self.fails_with(422):
            await self.runs.wait(None, "ctx", input={"name": "a"}, context={"greeting": 7})

    async def test_wait_reports_the_error_of_a_failed_run(self):
        values = await self.runs.wait(None, "fail", input={"log": []}, raise_error=False)
        self.assertEqual(values, {"__error__": {"error": "ValueError", "message": "boom"}})

    async def test_a_failed_run_marks_its_thread(self):
        thread = await self.thread()
        await self.runs.wait(thread, "fail", input={"log": []}, raise_error=False)
        stored = await self.threads.get(thread)
        self.assertEqual(stored["status"], "error")
        state = await self.threads.get_state(thread)
        self.assertEqual(state["next"], ["bad"])
        self.assertEqual(state["tasks"][0]["error"], "ValueError('boom')")
        self.assertEqual((await self.runs.list(thread))[0]["status"], "error")

    async def test_a_new_thread_needs_an_input(self):
        values = await self.runs.wait(await self.thread(), "tiny", raise_error=False)
        self.assertEqual(values["__error__"]["error"], "EmptyInputError")

    async def test_the_step_limit_ends_a_run(self):
        values = await self.runs.wait(
            None, "tiny", input={"value": "x"}, config={"recursion_limit": 1}, raise_error=False
        )
        self.assertEqual(values["__error__"]["error"], "GraphRecursionError")

    async def test_a_background_run_can_be_joined(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "tiny", input={"value": "x"}, metadata={"k": "v"})
        self.assertIn(run["status"], ["pending", "running"])
        values = await self.runs.join(thread, run["run_id"])
        self.assertEqual(values["value"], "xab")
        run = await self.runs.get(thread, run["run_id"])
        self.assertEqual((run["status"], run["metadata"]["k"]), ("success", "v"))

    async def test_runs_are_listed_newest_first(self):
        thread = await self.thread()
        for value in "abc":
            await self.runs.wait(thread, "tiny", input={"value": value})
        runs = await self.runs.list(thread, limit=2)
        self.assertEqual([it["kwargs"]["input"]["value"] for it in runs], ["c", "b"])
        self.assertEqual(len(await self.runs.list(thread, limit=10, offset=2)), 1)
        self.assertEqual(len(await self.runs.list(thread, status="error")), 0)
        selected = await self.runs.list(thread, limit=1, select=["run_id"])
        self.assertEqual(list(selected[0]), ["run_id"])

    async def test_a_finished_run_can_be_deleted(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "tiny", input={"value": "x"})
        await self.runs.join(thread, run["run_id"])
        await self.runs.delete(thread, run["run_id"])
        with self.fails_with(404):
            await self.runs.get(thread, run["run_id"])

    async def test_a_batch_creates_runs_without_threads(self):
        payload = {"assistant_id": "tiny", "input": {"value": "x"}}
        runs = await self.runs.create_batch([payload, payload])
        self.assertEqual(len({it["run_id"] for it in runs}), 2)

    async def test_the_thread_of_a_stateless_run_is_deleted(self):
        run = await self.runs.create(None, "tiny", input={"value": "x"})
        while True:
            try:
                await self.threads.get(run["thread_id"])
            except Exception as error:
                self.assertEqual(error.response.status_code, 404)
                return
            await asyncio.sleep(0.005)

    async def test_the_thread_of_a_stateless_run_can_be_kept(self):
        run = await self.runs.create(
            None, "tiny", input={"value": "x"}, on_completion="keep"
        )
        await self.runs.join(run["thread_id"], run["run_id"])
        self.assertEqual((await self.threads.get(run["thread_id"]))["status"], "idle")

    async def test_a_missing_thread_is_created_on_request(self):
        thread = new_id()
        with self.fails_with(404):
            await self.runs.wait(thread, "tiny", input={"value": "x"})
        values = await self.runs.wait(
            thread, "tiny", input={"value": "x"}, if_not_exists="create"
        )
        self.assertEqual(values["value"], "xab")

    async def test_unknown_assistants_are_rejected(self):
        with self.fails_with(422):
            await self.runs.wait(None, "nope", input={})
        with self.fails_with(404):
            await self.runs.wait(None, new_id(), input={})

    async def test_unknown_fields_are_rejected(self):
        body = {"assistant_id": "tiny", "input": {"value": "x"}, "bogus": 1}
        with self.fails_with(422):
            await self.client.http.post("/runs/wait", json=body)

    async def test_unknown_stream_modes_are_rejected(self):
        with self.fails_with(422):
            await self.client.http.post(
                "/runs/wait", json={"assistant_id": "tiny", "stream_mode": "bogus"}
            )

    async def test_a_delayed_run_starts_later(self):
        thread = await self.thread()
        run = await self.runs.create(thread, "tiny", input={"value": "x"}, after_seconds=1)
        self.assertEqual(await self.status(thread, run["run_id"]), "pending")
        self.assertEqual((await self.runs.join(thread, run["run_id"]))["value"], "xab")

    async def test_every_durability_keeps_the_final_state(self):
        for durability in ["sync", "async", "exit"]:
            thread = await self.thread()
            await self.runs.wait(thread, "tiny", input={"value": "x"}, durability=durability)
            state = await self.threads.get_state(thread)
            self.assertEqual(state["values"]["value"], "xab")
